// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package planner

// turnCost is the cost of one more response besides its prompt, in uncached input tokens: a call of
// a hundred tokens at five times the input price, and the time.
const turnCost = 1000

// needReplaced is the need of text that an edit has replaced. Only undoing the edit would quote it.
const needReplaced = 0.001

// appraise values every block and returns the number of blocks worth folding.
func (in *Input) appraise(s *Scratch) (candidates int) {
	n := len(in.Blocks)
	s.value, s.saving, s.part = zeroed(s.value, n), zeroed(s.saving, n), zeroed(s.part, n)
	for i := range in.Blocks {
		b := &in.Blocks[i]
		value := func(tokens, need float64) float64 {
			v := tokens * in.Read * in.Further
			if i >= in.Warm {
				v += tokens * (in.Write - in.Read) // never forwarded, so the fold saves the write
			}
			return v - in.Care*need*(in.Total*in.Read+tokens*in.Write+turnCost+in.Harm.of(tokens, max(in.Read, leastRead)))
		}
		if s.choose(i, b, value) {
			candidates++
		}
	}
	return candidates
}

// Returns reports whether a folded text should be shown again at the end of the prompt, given the
// probability of its need.
func Returns(tokens, chance, further float64, p Prices, h Harm) bool {
	// The end of the prompt is written anyway; from then on the text is read.
	return chance*(turnCost+h.of(tokens, max(p.Read, leastRead))) > tokens*(p.Write+p.Read*further)
}

// choose stores the value of the better fold of a block, whole or part, and reports whether it is
// positive.
func (s *Scratch) choose(i int, b *Block, value func(tokens, need float64) float64) bool {
	if b.Whole > 0 {
		if v := value(b.Whole, b.Need); v > 0 {
			s.value[i], s.saving[i] = v, b.Whole
		}
	}
	if b.Part > 0 {
		if v := value(b.Part, needReplaced); v > s.value[i] {
			s.value[i], s.saving[i], s.part[i] = v, b.Part, true
		}
	}
	return s.value[i] > 0
}
