// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"

// RecipeSource is what the values of edits and insertions are made of, in one request.
type RecipeSource struct {
	v      *wire.View
	blocks []wire.Block
	bodies []byte // of all blocks up to and with one
	upTo   int
}

// RecipeFrom makes a source of a request.
func RecipeFrom(v *wire.View) *RecipeSource { return &RecipeSource{v: v, blocks: v.MessageBlocks()} }

// Len is the number of its message blocks.
func (s *RecipeSource) Len() int { return len(s.blocks) }

// Body is what an edit of a block is made of, but one that makes it longer, by what stood
// in front: all bodies are needed for that.
func (s *RecipeSource) Body(i int) []byte { return s.v.Bytes(s.blocks[i].Body) }

// All is what an insertion at a block is made of: it brings back what stood in front.
func (s *RecipeSource) All(i int) []byte {
	for ; s.upTo <= i; s.upTo++ {
		s.bodies = append(s.bodies, s.Body(s.upTo)...)
	}
	return s.bodies
}
