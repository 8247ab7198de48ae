// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"iter"
)

// Summary sums up the blocks of a complete run of [RunLength] messages. The next request of the
// conversation takes over the summaries of unchanged runs, so their blocks are not examined again.
type Summary struct {
	// Chain is the [Chain] of the hashes of the blocks, from 0 on. Spoken is the same without
	// thinking.
	Chain, Spoken uint64
	// Bytes are the bytes of the blocks by kind.
	Bytes [Kinds]int32
	// Marked, Media and Deferred report whether any block has a cache marker, is or contains media,
	// or has FlagDeferred.
	Marked, Media, Deferred bool
}

// Chain appends a hash to a chain of hashes.
func Chain(chain, next uint64) uint64 {
	// A weak hash suffices: a client that provokes a collision only falsifies its own report.
	chain = (chain ^ next) * 0x9e3779b97f4a7c15
	return chain ^ chain>>29
}

// Short returns the first half of the hash.
func (h *Hash) Short() uint64 { return binary.LittleEndian.Uint64(h[:8]) }

// IsThinking reports whether the block is thinking, readable or redacted.
func (b *Block) IsThinking() bool {
	return b.Kind == KindThinking || b.Kind == KindRedactedThinking
}

// hasMedia reports whether the block is an image or contains media.
func (b *Block) hasMedia() bool { return b.Kind == KindImage || b.Has(FlagMedia) }

func summarize(blocks []Block) (s Summary) {
	for i := range blocks {
		b := &blocks[i]
		hash := b.Hash.Short()
		s.Chain = Chain(s.Chain, hash)
		if !b.IsThinking() {
			s.Spoken = Chain(s.Spoken, hash)
		}
		s.Bytes[b.Kind] += int32(b.Span.Len())
		s.Marked = s.Marked || !b.Marker.Empty()
		s.Media = s.Media || b.hasMedia()
		s.Deferred = s.Deferred || b.Has(FlagDeferred)
	}
	return s
}

// summarize takes over the summaries of the recalled conversation's unchanged runs, and adds those of
// the other complete runs.
func (p *Parser) summarize() {
	v, known, n := p.View, p.recognition.known, p.recognition.shared
	if n > 0 {
		v.recalled, v.shared = known, int(v.Messages[n-1].End)-v.System
		n = min(n/RunLength, len(known.summaries))
		v.summaries = known.summaries[:n:n] // another request may append to the same memory
	}
	for n := len(v.summaries); n < len(v.Messages)/RunLength; n++ {
		v.summaries = append(v.summaries, summarize(v.Blocks[v.Run(n):v.Run(n+1)]))
	}
}

// Shared returns the number of leading message blocks that the parse recognised as those of a
// conversation's last request. There may be more.
func (v *View) Shared(k *Known) int {
	if k == nil || k != v.recalled {
		return 0
	}
	return v.shared
}

// Summaries returns the summaries of the complete runs of messages.
func (v *View) Summaries() []Summary { return v.summaries }

// Run returns the index in Blocks of the first block of a run of messages, len(Blocks) after the
// last message.
func (v *View) Run(n int) int {
	if n == 0 {
		return v.System
	}
	if n *= RunLength; n < len(v.Messages) {
		return int(v.Messages[n].First)
	}
	return len(v.Blocks)
}

// ranges yields the ranges of blocks without a summary, and those of the summaries that are wanted.
func (v *View) ranges(wanted func(s *Summary) bool) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		if !yield(0, v.System) {
			return
		}
		for n := range v.summaries {
			if wanted(&v.summaries[n]) && !yield(v.Run(n), v.Run(n+1)) {
				return
			}
		}
		yield(v.Run(len(v.summaries)), len(v.Blocks))
	}
}

// Sizes returns the bytes of the blocks by kind.
func (v *View) Sizes() (sizes [Kinds]int) {
	for n := range v.summaries {
		for k, bytes := range v.summaries[n].Bytes {
			sizes[k] += int(bytes)
		}
	}
	for from, to := range v.ranges(func(*Summary) bool { return false }) {
		for i := from; i < to; i++ {
			sizes[v.Blocks[i].Kind] += v.Blocks[i].Span.Len()
		}
	}
	return sizes
}

// Marked yields the blocks with a cache marker, by their indices.
func (v *View) Marked() iter.Seq[int] {
	return func(yield func(int) bool) {
		for from, to := range v.ranges(func(s *Summary) bool { return s.Marked }) {
			for i := from; i < to; i++ {
				if !v.Blocks[i].Marker.Empty() && !yield(i) {
					return
				}
			}
		}
	}
}

// HasMedia reports whether any block is an image or contains media.
func (v *View) HasMedia() bool {
	for from, to := range v.ranges(func(s *Summary) bool { return s.Media }) {
		for i := from; i < to; i++ {
			if v.Blocks[i].hasMedia() {
				return true
			}
		}
	}
	return false
}
