// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

// Chain compares conversations by their chains of blocks, and tells kinds of them
// apart.

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// CommonBlocks is the number of blocks with which two chains begin alike.
func CommonBlocks(a, b []wire.Block) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i].Hash != b[i].Hash {
			return i
		}
	}
	return n
}

// SameBlocks reports whether two chains are the same.
func SameBlocks(a, b []wire.Block) bool { return len(a) == len(b) && CommonBlocks(a, b) == len(a) }

// AnswersIn is how often the model has answered in a part of a chain.
func AnswersIn(blocks []wire.Block) (n int) {
	for i, b := range blocks {
		if b.Role == wire.RoleAssistant && (i == 0 || blocks[i-1].Role != wire.RoleAssistant) {
			n++
		}
	}
	return n
}

// answeredSince reports whether two chains that part behind n blocks have a whole answer in common
// behind the first blocks.
func answeredSince(a, b []wire.Block, first, n int) bool {
	if says(a, n) || says(b, n) { // the last one goes on differently
		for n > first && says(a, n-1) {
			n--
		}
	}
	return AnswersIn(a[first:n]) > 0
}

// says reports whether the model has said a block.
func says(blocks []wire.Block, i int) bool {
	return i < len(blocks) && blocks[i].Role == wire.RoleAssistant
}

// RequestKind tells kinds of conversations of one client apart: the main thread from
// sub-agents and side requests, by the number of tools and of blocks in front of
// the messages.
func RequestKind(v *wire.View) uint32 { return uint32(v.Tools)<<16 | uint32(v.System)&0xffff }
