// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"sync"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// planning holds the input of one plan, and reusable memory.
type planning struct {
	// Planning looks at every block. In long conversations, new memory would be half of a request's
	// allocations.
	in      planner.Input
	scratch planner.Scratch
	need    NeedScratch
	cuts    []cut
}

var plannings = sync.Pool{New: func() any { return &planning{need: NewNeedScratch()} }}

func newPlanning() *planning { return plannings.Get().(*planning) }

func (p *planning) release() {
	if p.need.Clear() {
		plannings.Put(p)
	}
}

// plan folds the blocks worth folding, under the policies that count costs.
func (r *request) plan(l *sessioncache.Lineage, now time.Time) planner.Decision {
	further := furtherRequests(r.session, r.View, l)
	if !r.View.OffersTools() || content.Compacts(r.View) {
		return planner.Leave(further, "side request").Decision
	}
	q := newPlanning()
	defer q.release()
	q.in.Moment = r.moment(l)
	q.in.Further = further
	if q.in.Refuses() == "" {
		if !q.cut(r, content.MinFold) {
			return planner.Leave(further, planner.NothingToFold).Decision
		}
		q.gather(r, l, now)
	}
	p := planner.Make(&q.in, &q.scratch)
	r.marking.at = p.Entry
	if len(p.Folds) > 0 {
		p.Folded, p.Removed = r.fold(p.Folds)
	}
	return p.Decision
}

// moment returns the state of the conversation at the request.
func (r *request) moment(l *sessioncache.Lineage) planner.Moment {
	m := planner.Moment{Epoch: planner.NoEpoch, Loop: r.run.loop, Bound: r.thoughts.bound, Begun: l != nil, Regretted: r.regretted.TooMuch()}
	switch {
	case r.cached.cold:
		m.Epoch = planner.Cold
	case l != nil && l.Model != r.View.Model && r.rules.Regime != pricing.KV:
		m.Epoch = planner.ModelChanged
	case l != nil && r.Known < l.Len():
		m.Epoch = planner.Diverged
	}
	return m
}

// cut computes the savings of all blocks, ignoring savings below least, and reports whether there
// are any.
func (p *planning) cut(r *request, least int) (some bool) {
	p.cuts, some = r.cuts(p.cuts, least)
	return some
}

// gather collects the planner's input, after cut.
func (p *planning) gather(r *request, l *sessioncache.Lineage, now time.Time) {
	in := &p.in
	in.Care = r.o.Planner.Care() * r.regretted.Care()
	in.Prices = plannerPrices(&r.rules, l)
	in.Harm = *r.o.Planner.Harm
	in.Past = plannerPast(l)
	in.Warm, in.Forwarded = r.cached.forwarded, r.cached.forwarded
	if in.Epoch == planner.Cold || in.Epoch == planner.ModelChanged {
		in.Warm = 0
	}
	in.Anywhere = r.rules.Regime == pricing.KV || r.rules.Regime == pricing.Automatic && !r.rules.Units
	// When observed edits begin to be sent, or the reverse, the old entries match no longer.
	if in.Entries = in.Entries[:0]; !r.ledger.turned {
		in.Entries = liveEntries(in.Entries, l, r.rules.TTL, now)
	}
	in.Lapsed = !in.Anywhere && hasLapsed(l, r.rules.TTL, now)
	p.blocks(r, l, newEstimator(&r.session.Calibration, l))
}

// blocks collects the message blocks, and the size of the prompt.
func (p *planning) blocks(r *request, l *sessioncache.Lineage, e estimator) {
	in := &p.in
	in.Base, in.Total = 0, 0
	for i := range r.View.Blocks {
		if i == r.View.System {
			in.Base = in.Total
		}
		in.Total += e.Tokens(r.View.Blocks[i].Kind, r.View.Blocks[i].Span.Len())
	}
	in.Blocks = content.Zeroed(in.Blocks, len(r.Blocks))
	returned := returnedBlocks(&r.History, r.stubName)
	known := p.need.Appraise(&r.History, func(i int) bool { return p.cuts[i] != (cut{}) || len(returned) > 0 && content.Folded(r.States[i].Edit) })
	gone := tokensLeftOut(l)
	for i, c := range p.cuts {
		b, kind := &in.Blocks[i], r.Blocks[i].Kind
		b.Tokens = e.Tokens(kind, r.Sent(i))
		if kind == wire.KindToolResult && gone > 0 {
			// The upstream clears the first results by itself: folding them saves nothing.
			gone--
			continue
		}
		if c == (cut{}) {
			continue
		}
		b.Whole, b.Part = e.Tokens(kind, c.all), e.Tokens(kind, c.part)
		if !content.IsThinking(&r.Blocks[i]) {
			b.Need = r.need(l, i, &known[i])
			// The result also carries restored texts. It is needed if any of them is.
			for _, j := range returned[i] {
				b.Need = 1 - (1-b.Need)*(1-r.need(l, j, &known[j]))
			}
		}
	}
}

// need returns the probability that the agent will need a block again.
func (r *request) need(l *sessioncache.Lineage, i int, a *Appraisal) float64 {
	return calibratedNeed(l, r.States[i].Class, r.regretted.Need(&r.History, i, r.o.Planner.Need.Need(a)))
}
