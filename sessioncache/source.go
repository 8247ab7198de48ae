// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"

// RecipeSource has the bodies in one request from which edits and insertions are made.
type RecipeSource struct {
	v      *wire.View
	blocks []wire.Block
	bodies []byte // of all blocks up to upTo
	upTo   int
}

// RecipeFrom makes a source from a request.
func RecipeFrom(v *wire.View) *RecipeSource { return &RecipeSource{v: v, blocks: v.MessageBlocks()} }

// Len is the number of message blocks.
func (s *RecipeSource) Len() int { return len(s.blocks) }

// Body returns the body of block i, the source of edits that shorten it.
func (s *RecipeSource) Body(i int) []byte { return s.v.Bytes(s.blocks[i].Body) }

// All returns the bodies of the blocks up to i: insertions, and edits that lengthen a block, bring
// back earlier text.
func (s *RecipeSource) All(i int) []byte {
	for ; s.upTo <= i; s.upTo++ {
		s.bodies = append(s.bodies, s.Body(s.upTo)...)
	}
	return s.bodies
}
