// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

// ToolBounds are what a provider takes of the tools of one request. A bound of zero is
// none.
type ToolBounds struct {
	// Count is the number of tools.
	Count int
	// Name and Description are the longest of each, in bytes.
	Name, Description int
	// Bytes is the size of the request with its tools in it.
	Bytes int
}

// Room reports whether a request may get one more tool behind so many, and so is so many
// bytes long.
func (b ToolBounds) Room(tools, bytes int, name, description string) bool {
	within := func(n, bound int) bool { return bound == 0 || n <= bound }
	return within(tools+1, b.Count) && within(len(name), b.Name) && within(len(description), b.Description) &&
		within(bytes, b.Bytes)
}
