// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package planner

// Harm is the price of folding a text that the agent then needs. It exceeds the price of fetching
// the text again, because an agent that does not notice the loss works worse.
type Harm struct {
	// Price is the price in tokens read from the cache. The unit makes the limit for the need the
	// same for every upstream where a fold saves reads.
	Price float64 `json:"price"`
	// Long is the length in tokens at which the price doubles, 0 for never. The stub of a long text
	// does not tell that it contains the needed part.
	Long float64 `json:"long"`
}

// of returns the price for a text of so many tokens, given the price of reading a token.
func (h *Harm) of(tokens, read float64) float64 {
	price := h.Price * read
	if h.Long > 0 {
		price *= 1 + tokens/h.Long
	}
	return price
}

// leastRead is the minimum price of reading used for harm. A local server reads for free, but harm
// still costs.
const leastRead = 0.025

// DefaultHarm was chosen by go run ./lab/price on recorded conversations. The conversations of each
// repository owner were valued by a need model fitted without them. It is the lowest tested price
// at which harm stayed within limits: one edit in a hundred in all, one in fifty for each agent,
// and one in two hundred on local servers. See docs/numbers/replay.md and docs/concepts/planner.md.
var DefaultHarm = Harm{2e6, 4000}
