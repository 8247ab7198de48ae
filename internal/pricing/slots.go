// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"sort"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

type slot struct {
	chain []wire.Hash
	total []int64
	used  uint64
}

func common(a, b []wire.Hash) int {
	// The hashes are chained, so a position that differs makes all later ones differ.
	return sort.Search(min(len(a), len(b)), func(i int) bool { return a[i] != b[i] })
}

// engine is the memory of a local engine: the last prompts that it processed.
type engine struct {
	slots []slot
	clock uint64
}

// bill returns the usage of a prompt and the slot for it.
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
	// Prefixes are compared by blocks: a common beginning of two blocks counts as new, and so does the answer,
	// since its tokens differ from those of its rendering in the next prompt. An engine always processes the last
	// token.
	read := min(p.tokens(shared), max(size-1, 0))
	b.usage = wire.Usage{Read: read, Uncached: size - read, Reported: true}
	if best >= 0 {
		kept := e.slots[best].total
		// A slot that loses less than half of its prompt is the same conversation; another one's prompt stays for
		// its owner.
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

func (e *engine) take(i int) {
	if i < 0 {
		return
	}
	e.clock++
	e.slots[i].used = e.clock
}

func (e *engine) store(i int, p *prompt) {
	if i < 0 || i >= len(e.slots) || len(p.chain) == 0 {
		return
	}
	e.slots[i].chain, e.slots[i].total = p.chain, p.total
	e.take(i)
}
