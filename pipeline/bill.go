// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

// Billing computes the cost of a turn, and the cost of the client's own bytes in its place.

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Bill is the cost of a turn, and the cost of the client's own bytes in its place.
type Bill struct {
	// Actual is the usage reported by the upstream.
	Actual wire.Usage
	// Client is the simulated usage of the client's own bytes, by the cache rules. Its output is
	// the output of Actual.
	Client wire.Usage
	// Cost and ClientCost are the costs of both, output included, in uncached input tokens.
	Cost, ClientCost float64
	// Dollars and ClientDollars are the same in US dollars, 0 if the prices are unknown.
	Dollars, ClientDollars float64
	// WouldSave and WouldSaveDollars are the net saving of edits that were only computed, negative
	// for a loss.
	WouldSave, WouldSaveDollars float64
	// Translation and TranslationDollars are the saving of the marker that a translation adds. It
	// is also part of the client's side.
	Translation, TranslationDollars float64
}

// Mark computes the saving of the translation's marker.
func (b *Bill) Mark(r *pricing.Rules) {
	// Without the marker, no part of the client's prompt is cached.
	bare := wire.Usage{Uncached: b.Client.Prompt(), Output: b.Client.Output}
	b.Translation = r.Cost(bare) + r.CostOutput(bare) - b.ClientCost
	b.TranslationDollars = b.Translation * r.Input / 1e6
}

// Compare computes the saving of edits that were only computed.
func (b *Bill) Compare(r *pricing.Rules, client, would wire.Usage) {
	// Both sides are simulated, so errors of the simulation affect both.
	b.WouldSave = min(r.Cost(client)-r.Cost(would), r.Cost(b.Actual)) // at most the cost of the prompt
	b.WouldSaveDollars = b.WouldSave * r.Input / 1e6
}

// newBill returns the bill of a turn with these calls of the model. The client's side starts equal.
func newBill(r *pricing.Rules, calls ...wire.Usage) (b Bill) {
	for _, u := range calls {
		b.Actual = b.Actual.Add(u)
		b.Cost += r.Cost(u) + r.CostOutput(u) // price tiers depend on the prompt of each call
	}
	b.Dollars = b.Cost * r.Input / 1e6
	b.Client, b.ClientCost, b.ClientDollars = b.Actual, b.Cost, b.Dollars
	return b
}

// Own sets the usage of one call with the client's own bytes.
func (b *Bill) Own(r *pricing.Rules, client wire.Usage) {
	b.Client, b.ClientCost = client, r.Cost(client)+r.CostOutput(client)
	b.ClientDollars = b.ClientCost * r.Input / 1e6
}
