// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package planner

// Harm is the price of folding a text that the agent then needs. An agent that does not
// notice does worse than pay for getting the text back, and what is gone is gone: the
// price is the same at all moments.
type Harm struct {
	// Price is that price, in tokens that are read from the cache: the same is folded
	// at the same chance wherever reading is what folding saves.
	Price float64 `json:"price"`
	// Long is the length in tokens for which the price doubles: whoever needs a part of
	// a long text is not told by its stub that it was there. 0 is never.
	Long float64 `json:"long"`
}

// of is the price for a text of so many tokens, where reading one costs so much.
func (h *Harm) of(tokens, read float64) float64 {
	price := h.Price * read
	if h.Long > 0 {
		price *= 1 + tokens/h.Long
	}
	return price
}

// leastRead is the price of reading that counts at least: a box reads for
// nothing, but harm is harm.
const leastRead = 0.025

// DefaultHarm was chosen by go run ./lab/price on recorded conversations, those of each
// owner of repositories with a need model that had not seen them: the lowest price of
// those tried at which no more than one edit in a hundred was harmed, and one in fifty of
// each agent, one in two hundred on boxes, whatever the upstream.
// See docs/numbers/replay.md and docs/concepts/planner.md.
var DefaultHarm = Harm{2e6, 4000}
