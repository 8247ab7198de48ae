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

package pipeline

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// History is the conversation in one request, block by block, with what is
// remembered of each block. Blocks are named by their index among the message
// blocks.
type History struct {
	// View is the request.
	View *wire.View
	// Blocks are its message blocks, States what is remembered of each.
	Blocks []wire.Block
	States []sessioncache.State
	// Known is the number of blocks that stood in the last request too.
	Known int

	texts []string // of the new blocks, as far as they were decoded
	page  *page    // where the texts lie
}

// sent is the number of bytes that a whole block goes out in.
func (h *History) sent(i int) int {
	if h.removed(i) {
		return 0
	}
	return h.Blocks[i].Span.Len() - h.Blocks[i].Body.Len() + h.size(i)
}

// zeroed returns n zero values, in the memory of s if they fit.
func zeroed[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4+16)
	}
	s = s[:n]
	clear(s)
	return s
}
