// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

// Comparison of conversations by their chains of blocks, and their kinds.

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// CommonBlocks returns the length of the common prefix of two chains, in blocks.
func CommonBlocks(a, b []wire.Block) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i].Hash != b[i].Hash {
			return i
		}
	}
	return n
}

// SameBlocks reports whether two chains are equal.
func SameBlocks(a, b []wire.Block) bool { return len(a) == len(b) && CommonBlocks(a, b) == len(a) }

// AnswersIn counts the model's answers in a part of a chain.
func AnswersIn(blocks []wire.Block) (n int) {
	for i, b := range blocks {
		// Consecutive blocks of the model are one answer.
		if b.Role == wire.RoleAssistant && (i == 0 || blocks[i-1].Role != wire.RoleAssistant) {
			n++
		}
	}
	return n
}

// answeredSince reports whether two chains that diverge after n blocks share a complete answer
// after the first blocks.
func answeredSince(a, b []wire.Block, first, n int) bool {
	if says(a, n) || says(b, n) { // the last answer continues differently
		for n > first && says(a, n-1) {
			n--
		}
	}
	return AnswersIn(a[first:n]) > 0
}

// says reports whether block i comes from the model.
func says(blocks []wire.Block, i int) bool {
	return i < len(blocks) && blocks[i].Role == wire.RoleAssistant
}

// RequestKind distinguishes the conversations of one client: the main thread, sub-agents and side
// requests. It combines the number of tools and of blocks before the messages.
func RequestKind(v *wire.View) uint32 { return uint32(v.Tools)<<16 | uint32(v.System)&0xffff }
