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

package recipe

import "github.com/caddy-llm-cache/caddy-llm-cache/wire"

// Source is what the values of edits and insertions are made of, in one request.
type Source struct {
	v      *wire.View
	blocks []wire.Block
	bodies []byte // of all blocks up to and with one
	upTo   int
}

// From makes a source of a request.
func From(v *wire.View) *Source { return &Source{v: v, blocks: v.MessageBlocks()} }

// Len is the number of its message blocks.
func (s *Source) Len() int { return len(s.blocks) }

// Body is what an edit of a block is made of, but one that makes it longer, by what stood
// in front: all bodies are needed for that.
func (s *Source) Body(i int) []byte { return s.v.Bytes(s.blocks[i].Body) }

// All is what an insertion at a block is made of: it brings back what stood in front.
func (s *Source) All(i int) []byte {
	for ; s.upTo <= i; s.upTo++ {
		s.bodies = append(s.bodies, s.Body(s.upTo)...)
	}
	return s.bodies
}
