// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package planner

// Idle folds are valued by what a token in the prompt costs the box at each
// request besides its first reading: attention over it, and memory.
const idleRead = 0.1

// idleHarm is how many times the price of harm counts at an idle fold: one that is cut
// off has people wait for what it had thrown away. Of 284 conversations, read in front of
// people at 500 tokens a second: -3.8 % with the price as it is, -8.1 % with four times
// (go run ./lab/price -profiles kv -background 500).
const idleHarm = 4

// Idle decides what to fold while nobody waits, at an upstream that reads a
// folded history at no price but its time: the largest fold for which it has to
// read no more than limit tokens, 0 for any. It returns the folds, the first
// block of them (the number of blocks for none), and what has to be read.
func Idle(in *Input, s *Scratch, limit int) (folds []Fold, from, process int) {
	n := len(in.Blocks)
	if in.Regretted {
		return nil, n, 0
	}
	s.value, s.saving, s.part = zeroed(s.value, n), zeroed(s.saving, n), zeroed(s.part, n)
	for i := range in.Blocks {
		b := &in.Blocks[i]
		s.choose(i, b, func(tokens, need float64) float64 {
			return tokens*idleRead*in.Further - in.Care*need*(in.Total*idleRead+tokens+turnCost+idleHarm*in.Harm.of(tokens, idleRead))
		})
	}
	from = n
	kept := 0.0
	for i := n - 1; i >= 0; i-- {
		kept += in.Blocks[i].Tokens - s.saving[i]
		if limit > 0 && kept > float64(limit) {
			break
		}
		if s.value[i] > 0 {
			from, process = i, int(kept)
		}
	}
	return s.list(from), from, process
}
