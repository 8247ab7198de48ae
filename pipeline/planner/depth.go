// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package planner

// atLeast times the shortest prefix that is cached has to be left of a prompt.
const atLeast = 1.25

// patience keeps folds apart. What is ready has been read again and again while
// it piled up: at an even pace, tokens²/(2·pace) times. Once that has cost this
// share of what a fold costs, the fold is made. With sooner ones the same blocks
// behind would be written over and over, with later ones too much would be read.
const patience = 0.3

// best finds the depth from which folding gains most: the first block to fold,
// what has to be written again, and the gain.
func (in *Input) best(s *Scratch) (from int, rewritten, gain float64) {
	n := len(in.Blocks)
	from = n
	s.kept = zeroed(s.kept, n+1) // tokens that stay, from a block to the end of what is cached
	for i := n - 1; i >= 0; i-- {
		s.kept[i] = s.kept[i+1]
		if i < in.Warm {
			s.kept[i] += in.Blocks[i].Tokens - s.saving[i]
		}
	}
	// What has to be written again if the fold begins at a block: all behind the
	// entry in front of it, where what stands before the fold keeps what would be
	// folded there.
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
		if i < in.Forwarded && in.Total-tokens < atLeast*float64(in.MinTokens) {
			continue // what is left would not be cached any more
		}
		if g := sum - lost*(in.Write-in.Read); g > gain && tokens*tokens/(2*pace)*in.Read >= patience*lost*(in.Write-in.Read) {
			from, rewritten, gain = i, lost, g
		}
	}
	return from, rewritten, gain
}

// rewrite sums up what has to be written again by folds that begin between an
// entry and a block.
func (s *Scratch) rewrite(in *Input, entry, block int) {
	s.again[entry] = s.kept[entry]
	if front := in.Base + s.kept[0] - s.kept[entry]; front < float64(in.MinTokens) || entry == 0 && in.Lapsed {
		s.again[entry] += front // too short to be found, or not there any more
	}
	for j := entry; j < block; j++ {
		s.again[j+1] = s.again[j] + s.saving[j]
	}
}

// pace is the number of tokens that become ready to be folded with a request, on
// average.
func (in *Input) pace(s *Scratch) float64 {
	sum := 1.0
	for _, tokens := range s.saving {
		sum += tokens
	}
	if in.Begun {
		sum = (sum + in.Removed) / float64(max(1, in.Requests))
	}
	return sum
}

// entry returns the end of the deepest cache entry in front of a block, in blocks.
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
