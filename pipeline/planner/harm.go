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

// Market is a kind of upstream, as far as the price of harm goes.
type Market uint8

// The markets.
const (
	Markers     Market = iota // markers of five minutes
	LongMarkers               // markers of an hour
	Binding                   // thinking is bound to what stood before it
	Breakpoints               // writing has a price, and any prefix is found
	Automatic                 // writing is free, and any prefix is found
	Box                       // reading is free
)

// prices were chosen by go run ./lab/price on recorded conversations, those of each
// owner of repositories with a need model that had not seen them: the lowest of those
// tried at which no more than one edit in a hundred was harmed, one in two hundred on
// boxes. Those of markers and of bound thinking were chosen with folds that come back, the others without. See
// docs/replay.md and docs/planner.md.
var prices = [...]Harm{
	Markers:     {2e6, 4000},
	LongMarkers: {6e6, 4000},
	Binding:     {4e6, 4000},
	Breakpoints: {7e6, 4000},
	Automatic:   {8e6, 4000},
	Box:         {8e6, 4000},
}

// HarmAt is the price of harm at a kind of upstream.
func HarmAt(m Market) Harm { return prices[m] }
