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

package pipeline

import (
	"sync"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/cachemodel"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/history"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/need"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/stub"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// planning is what one plan is made of: what the planner is told, and memory to
// be used again. Planning looks at every block of a conversation, and in long
// ones it would otherwise make up half of all that a request allocates.
type planning struct {
	in      planner.Input
	scratch planner.Scratch
	need    need.Scratch
	cuts    []cut
}

var plannings = sync.Pool{New: func() any { return &planning{need: need.NewScratch()} }}

func newPlanning() *planning { return plannings.Get().(*planning) }

func (p *planning) release() {
	if p.need.Clear() {
		plannings.Put(p)
	}
}

// plan folds what is worth it, under the policies that count costs.
func (r *request) plan(l *sessioncache.Lineage, now time.Time) planner.Decision {
	further := expect(r.session, r.View, l)
	if !r.View.OffersTools() || history.Compacts(r.View) {
		return planner.Leave(further, "side request").Decision
	}
	q := newPlanning()
	defer q.release()
	q.in.Moment = r.moment(l)
	q.in.Further = further
	if q.in.Refuses() == "" {
		q.gather(r, l, stub.MinFold, now)
	}
	p := planner.Make(&q.in, &q.scratch)
	r.at = p.Entry
	if len(p.Folds) > 0 {
		p.Folded, p.Removed = r.fold(p.Folds)
	}
	return p.Decision
}

// moment says where in its conversation the request stands.
func (r *request) moment(l *sessioncache.Lineage) planner.Moment {
	m := planner.Moment{Epoch: planner.NoEpoch, Loop: r.loop, Bound: r.bound, Begun: l != nil, Regretted: r.regretted.share() > mostRegret}
	switch {
	case r.cold:
		m.Epoch = planner.Cold
	case l != nil && l.Model != r.View.Model && r.rules.Regime != cachemodel.KV:
		m.Epoch = planner.ModelChanged
	case l != nil && r.Known < l.Len():
		m.Epoch = planner.Diverged
	}
	return m
}

// gather says what there is to know of the conversation: of its blocks, those that
// are worth folding if that saves so many bytes.
func (p *planning) gather(r *request, l *sessioncache.Lineage, least int, now time.Time) {
	in := &p.in
	in.Care = r.o.Planner.Care() * (1 + caredFor*r.regretted.share())
	in.Prices = prices(&r.rules, l)
	if in.Harm = planner.HarmAt(market(&r.rules, l)); r.o.Planner.Harm != nil {
		in.Harm = *r.o.Planner.Harm
	}
	in.Past = past(l)
	in.Warm, in.Forwarded = r.forwarded, r.forwarded
	if in.Epoch == planner.Cold || in.Epoch == planner.ModelChanged {
		in.Warm = 0
	}
	in.Anywhere = r.rules.Regime == cachemodel.KV || r.rules.Regime == cachemodel.Automatic
	if in.Entries = in.Entries[:0]; !r.turned {
		in.Entries = entries(in.Entries, l, r.rules.TTL, now)
	}
	in.Lapsed = !in.Anywhere && lapsed(l, r.rules.TTL, now)
	p.blocks(r, l, estimator{&r.session.Calibration, rate(l)}, least)
}

// blocks lists the message blocks, and sums up the prompt.
func (p *planning) blocks(r *request, l *sessioncache.Lineage, e estimator, least int) {
	in := &p.in
	in.Base, in.Total = 0, 0
	for i := range r.View.Blocks {
		if i == r.View.System {
			in.Base = in.Total
		}
		in.Total += e.tokens(r.View.Blocks[i].Kind, r.View.Blocks[i].Span.Len())
	}
	in.Blocks = history.Zeroed(in.Blocks, len(r.Blocks))
	cuts, some := r.cuts(p.cuts, least)
	p.cuts = cuts
	var known []need.Appraisal
	if some {
		known = p.need.Appraise(&r.History, func(i int) bool { return cuts[i] != (cut{}) })
	}
	for i, c := range cuts {
		b, kind := &in.Blocks[i], r.Blocks[i].Kind
		b.Tokens = e.tokens(kind, r.Sent(i))
		if c == (cut{}) {
			continue
		}
		b.Whole, b.Part = e.tokens(kind, c.all), e.tokens(kind, c.part)
		if !history.IsThinking(&r.Blocks[i]) {
			b.Need = learned(l, r.States[i].Class, r.careful(i, r.o.Planner.Need.Need(&known[i])))
		}
	}
}

// learned raises the need of a block by what the model has asked for again of
// its like.
func learned(l *sessioncache.Lineage, c sessioncache.Class, need float64) float64 {
	if l == nil {
		return need
	}
	return min(1, need*float64(1+2*int(l.Expanded[c])))
}

// prices are those of a conversation: a token is written with the lifetime that
// its prefix has.
func prices(r *cachemodel.Rules, l *sessioncache.Lineage) planner.Prices {
	p := planner.Prices{Write: r.Write, Read: r.Read, MinTokens: r.MinTokens, Window: r.ContextWindow}
	if l != nil && r.LongTTL > 0 && l.TTL == r.LongTTL {
		p.Write = r.Write1h
	}
	return p
}

// market is where a conversation is held, as far as the price of harm goes.
func market(r *cachemodel.Rules, l *sessioncache.Lineage) planner.Market {
	switch {
	case r.Regime == cachemodel.KV:
		return planner.Box
	case r.BindsThinking:
		return planner.Binding
	case r.Regime == cachemodel.Breakpoints:
		return planner.Breakpoints
	case r.Regime == cachemodel.Automatic:
		return planner.Automatic
	case l != nil && r.LongTTL > 0 && l.TTL == r.LongTTL:
		return planner.LongMarkers
	}
	return planner.Markers
}

// past is what a conversation has been so far.
func past(l *sessioncache.Lineage) planner.Past {
	if l == nil {
		return planner.Past{Caution: 1}
	}
	return planner.Past{Requests: l.Requests, Spent: l.Spent, Staked: l.Staked, Removed: l.Removed, Caution: caution(l)}
}

// caution is how many times dearer than planned folds have turned out lately in
// a conversation, at least 1.
func caution(l *sessioncache.Lineage) float64 {
	if l == nil {
		return 1
	}
	return max(1, l.Caution)
}

// entries appends where the cache entries of a conversation end that are alive
// for certain.
func entries(ends []int, l *sessioncache.Lineage, ttl time.Duration, now time.Time) []int {
	if l == nil {
		return ends
	}
	if l.TTL != 0 {
		ttl = l.TTL
	}
	for _, e := range l.Ends {
		if now.Sub(e.At) < ttl-margin(ttl) {
			ends = append(ends, e.Blocks)
		}
	}
	return ends
}

// lapsed reports whether the entry in front of the first message block is not alive
// for certain. Reading a longer prefix does not prolong its life; a request that comes
// after its end writes it again.
func lapsed(l *sessioncache.Lineage, ttl time.Duration, now time.Time) bool {
	if l == nil {
		return false
	}
	if l.TTL != 0 {
		ttl = l.TTL
	}
	at, known := l.Marked(0)
	return known && now.Sub(at) >= ttl-margin(ttl)
}

// expect estimates the number of further requests: by how many more such
// conversations of the tenant have run, if there were enough; or else by what is
// usual in the session, if that is more than the prior.
func expect(s *sessioncache.Session, v *wire.View, l *sessioncache.Lineage) float64 {
	kind := sessioncache.Kind(v)
	if further, ok := s.ExpectedRemaining(kind, l); ok {
		return max(2, further/caution(l))
	}
	return max(prior(l), (s.Usual(kind, l)-requests(l))/caution(l))
}

// prior is the number of further requests that any conversation is expected to run.
func prior(l *sessioncache.Lineage) float64 {
	return max(2, (furtherAtFirst+furtherShare*requests(l))/caution(l))
}

// requests is the number of requests so far.
func requests(l *sessioncache.Lineage) float64 {
	if l == nil {
		return 0
	}
	return float64(l.Requests)
}

// A conversation with tools that has run n requests runs that many more: recorded
// ones ran 77 more at n = 10, 55 at 50, 44 at 100. Fewer are counted on, for the
// sake of the short ones.
const (
	furtherAtFirst = 25
	furtherShare   = 0.3
)
