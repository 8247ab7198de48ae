// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"sort"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// slot is one prompt in the memory of a local engine.
type slot struct {
	chain []wire.Hash
	total []int64
	used  uint64
}

// common returns the number of positions at the start that two prompts share.
func common(a, b []wire.Hash) int {
	return sort.Search(min(len(a), len(b)), func(i int) bool { return a[i] != b[i] })
}

// engine is the memory of a local engine: the last prompts that it processed.
type engine struct {
	slots []slot
	clock uint64
}

// bill returns what is left to process after the longest common prefix with any
// slot, and the slot that is going to hold the prompt: the same one where most of
// it is kept, otherwise the one not used for longest. An engine always processes
// the last block, if only its last token.
//
// Prefixes are compared by blocks: what two blocks share at their beginnings
// counts as new, and so does the answer, whose tokens differ from those of its
// rendering in the next prompt.
func (e *engine) bill(p *prompt, r Rules) (b bill, index int) {
	for len(e.slots) < r.Slots {
		e.slots = append(e.slots, slot{})
	}
	best, shared := -1, 0
	for i := range e.slots {
		if n := common(e.slots[i].chain, p.chain); n > shared {
			best, shared = i, n
		}
	}
	size := p.size()
	read := min(p.tokens(shared), max(size-1, 0))
	b.usage = wire.Usage{Read: read, Uncached: size - read, Reported: true}
	if best >= 0 {
		kept := e.slots[best].total
		if 2*p.tokens(shared) >= kept[len(kept)-1] {
			return b, best
		}
	}
	index = -1
	for i := range e.slots {
		if index < 0 || e.slots[i].used < e.slots[index].used {
			index = i
		}
	}
	return b, index
}

// take marks a slot as used now.
func (e *engine) take(i int) {
	if i < 0 {
		return
	}
	e.clock++
	e.slots[i].used = e.clock
}

// store puts a prompt into a slot.
func (e *engine) store(i int, p *prompt) {
	if i < 0 || i >= len(e.slots) || len(p.chain) == 0 {
		return
	}
	e.slots[i].chain, e.slots[i].total = p.chain, p.total
	e.take(i)
}
