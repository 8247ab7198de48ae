// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"encoding/binary"
	"math/bits"
	"path"
	"strings"
	"sync"
	"unsafe"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Reference determines whether a response refers to a block: by the block's paths and by quoted
// lines.

// mostTerms limits the terms of a trait.
const mostTerms = 10

// appendTerms appends the hashes of the path-like words of an argument.
func appendTerms(terms []uint64, argument string) []uint64 {
	for word := range Words(argument) {
		if len(terms) >= mostTerms-1 { // a word may add two
			break
		}
		if !strings.ContainsAny(word, "/.") || len(word) < 4 {
			continue
		}
		terms = append(terms, Hash(word))
		if base := path.Base(word); base != word && len(base) > 4 && strings.Contains(base, ".") {
			terms = append(terms, Hash(base))
		}
	}
	return terms
}

// newTrait returns a trait: the number of terms, the terms, and a Bloom filter of the quotable
// lines with about ten bits and three probes for each.
func newTrait(terms, lines []uint64) sessioncache.Trait {
	words := (len(lines)*10 + 63) / 64
	t := make([]byte, 1, 1+8*(len(terms)+words))
	t[0] = byte(len(terms))
	for _, h := range terms {
		t = binary.LittleEndian.AppendUint64(t, h)
	}
	// One line in sixty wrongly counts as a quotation, which only keeps a block for longer.
	filter := t[len(t):cap(t)]
	for _, h := range lines {
		for probe := range uint64(3) {
			at := probeAt(h, probe, len(filter))
			filter[at/8] |= 1 << (at % 8)
		}
	}
	t = t[:cap(t)]
	return sessioncache.Trait(unsafe.String(unsafe.SliceData(t), len(t))) // no other reference to the bytes exists
}

// probeAt returns the bit for a probe of a hash.
func probeAt(h, probe uint64, bytes int) uint64 {
	// The share of the hash in all hashes maps to the same share of the bits.
	at, _ := bits.Mul64(h+probe*(h<<32|1), uint64(bytes*8))
	return at
}

func inBloom(filter sessioncache.Trait, h uint64) bool {
	if len(filter) == 0 {
		return false
	}
	for probe := range uint64(3) {
		at := probeAt(h, probe, len(filter))
		if filter[at/8]&(1<<(at%8)) == 0 {
			return false
		}
	}
	return true
}

// Shows reports whether the block of a trait contains at least half of a text's quotable lines.
func Shows(t sessioncache.Trait, text string) bool {
	if t == "" {
		return false
	}
	filter := t[1+8*int(t[0]):]
	lines, found := 0, 0
	for line := range strings.Lines(text) {
		if q, ok := Quotable(line); ok {
			if lines++; inBloom(filter, Hash(q)) {
				found++
			}
		}
	}
	return found > 0 && 2*found >= lines
}

// ReferenceMaker makes traits in reusable memory.
type ReferenceMaker struct {
	lines   []uint64 // of one block at a time
	source  int      // the number of lines that look like source code
	sampled []uint64
}

var makers = sync.Pool{New: func() any { return new(ReferenceMaker) }}

// NewReferenceMaker returns a maker from the pool; see [ReferenceMaker.Release].
func NewReferenceMaker() *ReferenceMaker { return makers.Get().(*ReferenceMaker) }

// Release returns the maker to the pool.
func (k *ReferenceMaker) Release() { makers.Put(k) }

// Result returns the trait of a result: the id and argument of its call, and the lines of its text.
func (k *ReferenceMaker) Result(id, argument, text string) sessioncache.Trait {
	var few [mostTerms]uint64
	k.lines, k.source = appendLines(k.lines[:0], text)
	return newTrait(appendTerms(append(few[:0], Hash(id)), argument), k.lines)
}

// Input returns the trait of a call's written text.
func (k *ReferenceMaker) Input(argument string, input gjson.Result) sessioncache.Trait {
	var few [mostTerms]uint64
	m := Mention{lines: k.lines[:0], unread: true}
	m.value(input, 0)
	k.lines, k.source = m.lines, 0
	return newTrait(appendTerms(few[:0], argument), k.lines)
}

// Source is the share of the last block's quotable lines that look like source code, in sixteenths,
// at most 15.
func (k *ReferenceMaker) Source() uint8 { return uint8(min(15, 16*k.source/max(1, len(k.lines)))) }

// One line in sampleStride is sampled, up to mostSampled per block.
const (
	sampleStride = 4
	mostSampled  = 48
)

// Sampled returns a sample of the last block's lines. A line is sampled in every block that
// contains it, or in none. The result is valid until the next trait.
func (k *ReferenceMaker) Sampled() []uint64 {
	k.sampled = k.sampled[:0]
	for _, h := range k.lines {
		if h>>32%sampleStride == 0 && len(k.sampled) < mostSampled {
			k.sampled = append(k.sampled, h)
		}
	}
	return k.sampled
}

// HeldLines returns the number of lines that the block of a trait contains.
func HeldLines(t sessioncache.Trait, lines []uint64) (n int) {
	filter := t[1+8*int(t[0]):]
	if len(filter) == 0 {
		return 0
	}
	for _, h := range lines {
		// All three probes are made without branches: their bits are random, and a wrongly
		// predicted branch costs more.
		a, b, c := probeAt(h, 0, len(filter)), probeAt(h, 1, len(filter)), probeAt(h, 2, len(filter))
		n += int(filter[a/8] >> (a % 8) & (filter[b/8] >> (b % 8)) & (filter[c/8] >> (c % 8)) & 1)
	}
	return n
}

// word returns the first word of a trait: a term or a part of the filter.
func word(t sessioncache.Trait) uint64 {
	_ = t[7]
	return uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24 |
		uint64(t[4])<<32 | uint64(t[5])<<40 | uint64(t[6])<<48 | uint64(t[7])<<56
}

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
