// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

// Package billing works out what a turn cost, and what the client's own bytes
// would have cost in its place.
package billing

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/cachemodel"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
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
}

// Compare notes what edits that were only computed would have saved: both sides are
// simulated, so that what the simulation gets wrong is wrong on both.
func (b *Bill) Compare(r *cachemodel.Rules, client, would wire.Usage) {
	b.WouldSave = min(r.Cost(client)-r.Cost(would), r.Cost(b.Actual)) // no more than the prompt has cost
	b.WouldSaveDollars = b.WouldSave * r.Input / 1e6
}

// New makes the bill of an answer of which the client's own bytes would have taken
// as much as told.
func New(r *cachemodel.Rules, actual, client wire.Usage) Bill {
	b := Bill{Actual: actual, Client: client}
	b.Cost, b.ClientCost = r.Cost(actual)+r.CostOutput(actual), r.Cost(client)+r.CostOutput(client)
	b.Dollars, b.ClientDollars = b.Cost*r.Input/1e6, b.ClientCost*r.Input/1e6
	return b
}
