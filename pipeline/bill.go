// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

// Billing works out what a turn cost, and what the client's own bytes
// would have cost in its place.

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Bill is what a turn cost, and what the client's own bytes would have cost.
type Bill struct {
	// Actual is what the upstream reported.
	Actual wire.Usage
	// Client is what it would have reported for the client's own bytes, by the
	// cache rules. Its output is that of Actual.
	Client wire.Usage
	// Cost and ClientCost are what the two cost, answers included, in units of
	// one uncached input token of the model.
	Cost, ClientCost float64
	// Dollars and ClientDollars are the same in US dollars, 0 where the prices
	// are not known.
	Dollars, ClientDollars float64
	// WouldSave and WouldSaveDollars are what edits that were only computed would
	// have saved in this turn, net: below zero where they would have cost more.
	WouldSave, WouldSaveDollars float64
	// Translation and TranslationDollars are what the marker saved that a translation
	// adds: the client's side has it, too.
	Translation, TranslationDollars float64
}

// Mark notes what the client's side would have cost more without a marker: nothing of its
// prompt is cached then.
func (b *Bill) Mark(r *pricing.Rules) {
	bare := wire.Usage{Uncached: b.Client.Prompt(), Output: b.Client.Output}
	b.Translation = r.Cost(bare) + r.CostOutput(bare) - b.ClientCost
	b.TranslationDollars = b.Translation * r.Input / 1e6
}

// Compare notes what edits that were only computed would have saved: both sides are
// simulated, so that what the simulation gets wrong is wrong on both.
func (b *Bill) Compare(r *pricing.Rules, client, would wire.Usage) {
	b.WouldSave = min(r.Cost(client)-r.Cost(would), r.Cost(b.Actual)) // no more than the prompt has cost
	b.WouldSaveDollars = b.WouldSave * r.Input / 1e6
}

// newBill makes the bill of a turn for which the model was called so often. The client's own
// bytes would have taken the same.
func newBill(r *pricing.Rules, calls ...wire.Usage) (b Bill) {
	for _, u := range calls {
		b.Actual = b.Actual.Add(u)
		b.Cost += r.Cost(u) + r.CostOutput(u) // price tiers go by the prompt of each call
	}
	b.Dollars = b.Cost * r.Input / 1e6
	b.Client, b.ClientCost, b.ClientDollars = b.Actual, b.Cost, b.Dollars
	return b
}

// Own notes what one call with the client's own bytes would have taken.
func (b *Bill) Own(r *pricing.Rules, client wire.Usage) {
	b.Client, b.ClientCost = client, r.Cost(client)+r.CostOutput(client)
	b.ClientDollars = b.ClientCost * r.Input / 1e6
}
