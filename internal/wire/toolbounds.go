// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

// ToolBounds are a provider's limits on the tools of one request. Zero means no limit.
type ToolBounds struct {
	// Count is the maximum number of tools.
	Count int
	// Name and Description are the maximum lengths, in bytes.
	Name, Description int
	// Bytes is the maximum size of the request, tools included.
	Bytes int
}

// Room reports whether a request with this number of tools may get one more. bytes is the size of
// the request with the new tool.
func (b ToolBounds) Room(tools, bytes int, name, description string) bool {
	within := func(n, bound int) bool { return bound == 0 || n <= bound }
	return within(tools+1, b.Count) && within(len(name), b.Name) && within(len(description), b.Description) &&
		within(bytes, b.Bytes)
}
