// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"math/bits"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// ReferenceIndex finds the blocks that contain a line, like [HeldLines] for many blocks at once.
type ReferenceIndex struct{ lengths []shelves }

// shelves holds filters of one length.
type shelves struct {
	bytes int
	all   []shelf
}

// shelf holds up to 64 filters: a word for each filter bit, with one bit for each filter.
type shelf struct {
	words []uint64
	ids   []int32
}

// Add adds the filter of a trait under a number.
func (x *ReferenceIndex) Add(t sessioncache.Trait, id int) {
	filter := t[1+8*int(t[0]):]
	if len(filter) == 0 {
		return
	}
	of := x.of(len(filter))
	if n := len(of.all); n == 0 || len(of.all[n-1].ids) == 64 {
		of.all = append(of.all, shelf{words: make([]uint64, 8*len(filter))})
	}
	s := &of.all[len(of.all)-1]
	own := uint64(1) << len(s.ids)
	s.ids = append(s.ids, int32(id))
	for i := 0; i < len(filter); i += 8 {
		for b := word(filter[i:]); b != 0; b &= b - 1 {
			s.words[8*i+bits.TrailingZeros64(b)] |= own
		}
	}
}

// of returns the shelves for filters of a length.
func (x *ReferenceIndex) of(bytes int) *shelves {
	for i := range x.lengths {
		if x.lengths[i].bytes == bytes {
			return &x.lengths[i]
		}
	}
	x.lengths = append(x.lengths, shelves{bytes: bytes})
	return &x.lengths[len(x.lengths)-1]
}

// Holding calls found for each block that contains a line, with the same error rate as [HoldsLine].
func (x *ReferenceIndex) Holding(line uint64, found func(id int)) {
	for i := range x.lengths {
		of := &x.lengths[i]
		// The probes of a line are the same bits in all filters of one length, so 64 filters are
		// checked at once.
		a, b, c := probeAt(line, 0, of.bytes), probeAt(line, 1, of.bytes), probeAt(line, 2, of.bytes)
		for k := range of.all {
			s := &of.all[k]
			for hits := s.words[a] & s.words[b] & s.words[c]; hits != 0; hits &= hits - 1 {
				found(int(s.ids[bits.TrailingZeros64(hits)]))
			}
		}
	}
}

// Shelves returns the number of shelves that one search reads.
func (x *ReferenceIndex) Shelves() (n int) {
	for i := range x.lengths {
		n += len(x.lengths[i].all)
	}
	return n
}
