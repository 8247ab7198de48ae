// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"math/bits"
	"math/rand/v2"
)

// termSeed distributes hashes over slots unpredictably for clients.
var termSeed = rand.Uint64() | 1 //nolint:gosec // no secret

// termSet is a set of hashes with open addressing. The zero value is empty.
type termSet struct {
	// Most responses need a set of some hundred hashes, for which a map costs several times as
	// much.
	slots []uint64 // a power of two in number, 0 for a free slot
	n     int
	zero  bool // 0 is in the set
}

// mostSlots limits the memory of a set kept for another response.
const mostSlots = 1 << 14

// slot returns the slot of a hash, or the free slot to use for it.
func (t *termSet) slot(h uint64) *uint64 {
	last := uint64(len(t.slots) - 1)
	for i := h * termSeed >> (64 - bits.Len64(last)); ; i = (i + 1) & last {
		if s := &t.slots[i]; *s == h || *s == 0 {
			return s
		}
	}
}

func (t *termSet) add(h uint64) {
	if h == 0 {
		t.zero = true
		return
	}
	if 2*t.n >= len(t.slots) {
		t.grow()
	}
	if s := t.slot(h); *s == 0 {
		*s = h
		t.n++
	}
}

func (t *termSet) has(h uint64) bool {
	if h == 0 {
		return t.zero
	}
	return t.n > 0 && *t.slot(h) == h
}

func (t *termSet) grow() {
	old := t.slots
	t.slots = make([]uint64, max(256, 2*len(old)))
	for _, h := range old {
		if h != 0 {
			*t.slot(h) = h
		}
	}
}

// clear empties the set.
func (t *termSet) clear() {
	if len(t.slots) > mostSlots {
		// A single long response must not keep its memory in the pool.
		t.slots = nil
	}
	clear(t.slots)
	t.n, t.zero = 0, false
}
