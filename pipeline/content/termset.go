// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"math/bits"
	"math/rand/v2"
)

// termSeed spreads hashes over slots in a way that nobody outside can foresee.
var termSeed = rand.Uint64() | 1 //nolint:gosec // no secret

// termSet is a set of hashes, by open addressing: most answers fill and ask one of
// some hundred, and a map costs several times as much. The zero value is empty.
type termSet struct {
	slots []uint64 // a power of two of them, 0 for a free one
	n     int
	zero  bool // 0 is in the set
}

// mostSlots bounds the memory of a set that is kept for another answer.
const mostSlots = 1 << 14

// slot returns where a hash stands, or the free slot where it would.
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
		t.slots = nil
	}
	clear(t.slots)
	t.n, t.zero = 0, false
}
