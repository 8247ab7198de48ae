// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package optimum

import (
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial"
)

// Moments are the kinds of requests at which an [Optimum] folds.
type Moments string

// The kinds of moments.
const (
	// AnyRequest folds whenever it pays.
	AnyRequest Moments = "any request"
	// Boundaries folds at a user's prompt, or when no message was found in the cache. For models
	// that bind thinking to its context only prompts count.
	Boundaries Moments = "boundaries, cold"
)

// AllMoments are the moments in the order of the results of [Hindsight.Solve].
var AllMoments = [...]Moments{AnyRequest, Boundaries}

// Options configure the blocks that an [Optimum] may fold.
type Options struct {
	// Over is the length above which a block may be folded, in characters. Default: 0, all; the
	// command's default is 500.
	Over int
	// Hot is the number of turns at the end that stay unfolded. The command's default is 4.
	Hot int
	// Inputs enables the folding of tool inputs.
	Inputs bool
}

// Optimum is the minimum cost of conversations with hindsight, by folding tool results alone. It is
// computed, not replayed:
//
//   - A fold at a request edits, from some block on, every block that may be
//     folded. The cache after that block has to be written again. The prefix
//     before it is read: one marker of our own is there, set with foresight in
//     the previous request at no cost, because its prefix was read.
//   - A block may be folded if it is long enough, out of the hot turns, and no
//     later edit of a file quotes its text, unless another block shows the text.
//     So nothing is harmed.
//   - Models that bind thinking to its context lose all thinking after the first
//     edit.
//
// The requests to fold at, and the blocks to fold from, are chosen by dynamic programming, so no
// other choice is cheaper. Prices, lifetimes and cache reads are those of the baseline.
type Optimum struct {
	// Profile and Moments are the parameters of the computation. Inputs reports that tool inputs
	// were folded like results.
	Profile string `json:"profile"`
	// Moments: see Profile.
	Moments Moments `json:"moments"`
	// Inputs: see Profile.
	Inputs bool `json:"inputs,omitempty"`
	// BaseCost and Cost are the costs of the client's own bytes and of the optimum, as in the
	// trial's result.
	BaseCost float64 `json:"base_cost"`
	// Cost: see BaseCost.
	Cost float64 `json:"cost"`
	// Folds is the number of requests with a fold.
	Folds int `json:"folds"`
	// Conversations are the costs by conversation, sorted by name.
	Conversations []Of `json:"conversations"`
}

// Of is the optimum of one conversation.
type Of struct {
	// Conversation is the name of the conversation.
	Conversation string `json:"conversation"`
	// BaseCost, Cost and Folds: see [Optimum].
	BaseCost float64 `json:"base_cost"`
	// Cost: see [Optimum].
	Cost float64 `json:"cost"`
	// Folds: see [Optimum].
	Folds int `json:"folds"`
}

// CostRatio returns the cost as a multiple of the cost of the client's own bytes.
func (o *Optimum) CostRatio() float64 { return trial.Ratio(o.Cost, o.BaseCost) }

// Worst returns the highest cost ratio of any conversation.
func (o *Optimum) Worst() float64 {
	worst := 0.0
	for i := range o.Conversations {
		c := &o.Conversations[i]
		worst = max(worst, trial.Ratio(c.Cost, c.BaseCost))
	}
	return worst
}

// Add adds a conversation.
func (o *Optimum) Add(c Of) {
	o.BaseCost += c.BaseCost
	o.Cost += c.Cost
	o.Folds += c.Folds
	o.Conversations = append(o.Conversations, c)
}

// Solve returns the optimum of the conversation for each of AllMoments.
func (h *Hindsight) Solve() []Of {
	out := make([]Of, len(AllMoments))
	for _, s := range h.stretches {
		base := 0.0
		for i := range s.asks {
			base += s.asks[i].cost
		}
		for i, m := range AllMoments {
			gain, folds := s.solve(s.allowed(m, h.rules.BindsThinking))
			out[i].BaseCost += base
			out[i].Cost += base - gain
			out[i].Folds += folds
		}
	}
	return out
}

// allowed returns the requests at which folds are allowed.
func (s *stretch) allowed(m Moments, binds bool) []int {
	var out []int
	for i := range s.asks {
		if a := &s.asks[i]; m == AnyRequest || a.prompt || a.cold && !binds {
			out = append(out, i)
		}
	}
	return out
}

// solve chooses folds at the allowed requests and returns their gain and number.
//
// Let best[a][b] be the maximum gain between two folds a and b from folding blocks from position p
// on, that is, blocks which ripen after a; b folds the rest of them. For the last position it is 0.
// For the position before, either its block waits for b, or one fold t between a and b begins with
// it. Such a fold splits the blocks after it into those before t and those after t:
//
//	best[a][b] = max( gain(p, b) + best'[a][b],
//	                  gain(p, t) − price(t, p) + best'[a][t] + best'[t][b] )
//
// where best' is the value of the next position. Row 0 stands for the start. The last column stands
// for the end, which folds nothing.
func (s *stretch) solve(allowed []int) (gain float64, folds int) {
	n := len(allowed)
	best := make([][]plan, n+1)
	for a := range best {
		best[a] = make([]plan, n+1)
	}
	later := s.later()
	price := s.prices(allowed)
	gains, costs := make([]float64, n+1), make([]float64, n)
	for p, it := range slices.Backward(s.items) {
		for t := range price {
			costs[t] = price[t].next(s, p)
		}
		first, _ := slices.BinarySearch(allowed, it.ripe)
		if it.saves == 0 || first == n {
			continue
		}
		for t := first; t < n; t++ {
			gains[t] = float64(it.saves) * later.from(s, p, allowed[t])
		}
		for a := 0; a <= first; a++ { // fold a−1 comes before allowed[first]
			for b := n; b >= first; b-- { // best[a][t] is still best' for t < b
				m := best[a][b]
				m.gain += gains[b]
				for t := first; t < b && !it.thought; t++ {
					l, r := &best[a][t], &best[t+1][b]
					if g := gains[t] - costs[t] + l.gain + r.gain; g > m.gain+1e-9 {
						m = plan{g, l.folds + r.folds + 1}
					}
				}
				best[a][b] = m
			}
		}
	}
	return best[0][n].gain, best[0][n].folds
}

// plan is a choice of folds.
type plan struct {
	gain  float64
	folds int
}

// later sums up the costs of a token from each request on, cached and uncached.
type later struct{ warm, rest []float64 }

func (s *stretch) later() later {
	l := later{make([]float64, len(s.asks)+1), make([]float64, len(s.asks)+1)}
	for i, a := range slices.Backward(s.asks) {
		l.warm[i], l.rest[i] = l.warm[i+1]+a.warm, l.rest[i+1]+a.rest
	}
	return l
}

// from returns the cost of an item's token from a request on.
func (l later) from(s *stretch, p, request int) float64 {
	cost := l.warm[request]
	for i := request; i < len(s.asks); i++ {
		if a := &s.asks[i]; p >= a.read {
			cost += a.rest - a.warm
		}
	}
	return cost
}

// price sums up the tokens that a fold at one request has to write again, from the last item
// backwards.
type price struct {
	request int
	tokens  int64
}

func (s *stretch) prices(allowed []int) []price {
	out := make([]price, len(allowed))
	for i, request := range allowed {
		out[i].request = request
	}
	return out
}

// next adds the preceding item and returns the price of a fold that begins with it.
func (r *price) next(s *stretch, p int) float64 {
	a, it := &s.asks[r.request], &s.items[p]
	if p < a.read {
		r.tokens += it.tokens
		// After the fold all foldable blocks behind it are folded, regardless of earlier folds.
		if it.ripe <= r.request {
			r.tokens -= it.saves
		}
	}
	return float64(r.tokens) * (a.rest - a.warm)
}
