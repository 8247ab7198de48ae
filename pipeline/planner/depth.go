// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package planner

// atLeast is the factor by which a prompt must exceed the minimum cacheable prefix after a fold.
const atLeast = 1.25

// patience keeps folds apart: a fold is made once the reads of its blocks have cost this share of
// the fold's cost.
const patience = 0.3

// best finds the depth with the largest gain. It returns the first block to fold, the tokens to
// write again, and the gain.
func (in *Input) best(s *Scratch) (from int, rewritten, gain float64) {
	n := len(in.Blocks)
	from = n
	s.kept = zeroed(s.kept, n+1) // tokens that stay, from a block to the end of the cached prefix
	for i := n - 1; i >= 0; i-- {
		s.kept[i] = s.kept[i+1]
		if i < in.Warm {
			s.kept[i] += in.Blocks[i].Tokens - s.saving[i]
		}
	}
	// s.again[i] is the number of tokens to write again if the fold begins at block i: all tokens
	// after the last cache entry before i. Foldable blocks before i stay unfolded.
	s.again = zeroed(s.again, n+1)
	sum, tokens, pace := 0.0, 0.0, in.pace(s)
	entry := n + 1
	for i := n - 1; i >= 0; i-- {
		if s.value[i] <= 0 {
			continue
		}
		sum += s.value[i]
		lost := 0.0
		if i < in.Warm {
			if entry > i {
				entry = in.entry(i)
				s.rewrite(in, entry, i)
			}
			lost = s.again[i] * in.Caution
		}
		tokens += s.saving[i]
		// A prompt below the minimum would not be cached any more.
		if i < in.Forwarded && in.Total-tokens < atLeast*float64(in.MinTokens) {
			continue
		}
		// Blocks that pile up at an even pace have been read tokens²/(2·pace) times. Earlier folds
		// would write the same later blocks over and over; later folds would read too much.
		if g := sum - lost*(in.Write-in.Read); g > gain && tokens*tokens/(2*pace)*in.Read >= patience*lost*(in.Write-in.Read) {
			from, rewritten, gain = i, lost, g
		}
	}
	return from, rewritten, gain
}

// rewrite computes s.again for the folds that begin between an entry and a block.
func (s *Scratch) rewrite(in *Input, entry, block int) {
	s.again[entry] = s.kept[entry]
	if front := in.Base + s.kept[0] - s.kept[entry]; front < float64(in.MinTokens) || entry == 0 && in.Lapsed {
		s.again[entry] += front // below the minimum, or expired: the part before the entry is written, too
	}
	for j := entry; j < block; j++ {
		s.again[j+1] = s.again[j] + s.saving[j]
	}
}

// pace is the average number of tokens per request that become ready to fold.
func (in *Input) pace(s *Scratch) float64 {
	// The pace is a divisor, so it must not be zero.
	sum := 1.0
	for _, tokens := range s.saving {
		sum += tokens
	}
	if in.Begun {
		sum = (sum + in.Removed) / float64(max(1, in.Requests))
	}
	return sum
}

// entry returns the end of the last cache entry before block i, in blocks.
func (in *Input) entry(i int) int {
	if in.Anywhere {
		return i
	}
	deepest := 0
	for _, end := range in.Entries {
		if end <= i {
			deepest = max(deepest, end)
		}
	}
	return deepest
}
