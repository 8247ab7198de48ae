// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package planner

// idleRead is the cost of a token in the prompt for a local server at each request after its first
// reading: attention and memory.
const idleRead = 0.1

// idleHarm multiplies the price of harm at an idle fold: if the next request interrupts the fold, a
// person waits for the discarded cache. Reading while a person waits, over 284 conversations at 500
// tokens a second: -3.8 % with factor 1, -8.1 % with factor 4 (go run ./lab/price -profiles kv
// -background 500).
const idleHarm = 4

// Idle decides which blocks to fold between requests, for an upstream that reads for free but takes
// time. It returns the largest fold for which the upstream reads at most limit tokens, 0 for no
// limit. Results are the folds, their first block (the number of blocks for none), and the tokens
// to read.
func Idle(in *Input, s *Scratch, limit int) (folds []Fold, from, process int) {
	n := len(in.Blocks)
	if in.Regretted {
		return nil, n, 0
	}
	s.value, s.saving, s.part = zeroed(s.value, n), zeroed(s.saving, n), zeroed(s.part, n)
	for i := range in.Blocks {
		b := &in.Blocks[i]
		s.choose(i, b, func(tokens, need float64) float64 {
			// If the agent needs the text, it fetches the text in one more turn, or works worse
			// without.
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
