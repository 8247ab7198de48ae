// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

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
