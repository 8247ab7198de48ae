// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"strings"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Idle describes an idle conversation with a cache that may be worth keeping.
type Idle struct {
	// Lineage is the number of the conversation in its session.
	Lineage int
	// Rules are the cache rules of its model.
	Rules pricing.Rules
	// Lifetime is the lifetime of its cached prefix.
	Lifetime time.Duration
	// Prompt is the length of the prompt, in tokens.
	Prompt int64
	// Tool reports whether the response asks for tool calls, Question whether it ends in a
	// question.
	Tool, Question bool
	// Prompts is the number of human prompts, Pauses the number of pauses longer than the lifetime.
	Prompts, Pauses int
	// Cold is the planner's extra gain from a cold cache, which makes folds free, in uncached input
	// tokens.
	Cold float64
	// Spent is the cost of the conversation. Saved is its saving over the client's own bytes. Kept
	// is the net saving of its pings.
	Spent, Saved, Kept float64
}

// Committed returns the number of the conversation that Commit extended, or false without a Commit.
func (x *Exchange) Committed() (int, bool) {
	if x.standing.lineage == nil {
		return 0, false
	}
	return x.standing.lineage.ID(), true
}

// Replaced returns the conversations of the session that this new one replaces, because the client
// summarized its history or started over. Sub-agents replace none: they have tools of their own.
func (x *Exchange) Replaced() (lineages []int) {
	if x.standing.lineage == nil || x.standing.match.Lineage != nil || !x.req.View.OffersTools() {
		return nil
	}
	x.req.session.Lock()
	defer x.req.session.Unlock()
	return x.req.session.SameTools(x.standing.lineage)
}

// cold returns the planner's extra gain from a cold cache. The session is locked.
func (x *Exchange) cold(l *sessioncache.Lineage, tool bool) float64 {
	if x.Policy == Observe || x.Policy == Eager || x.refusal.off.Has(wire.EditText) || x.req.orders.given.Cuts() {
		return 0
	}
	// The valuation works on a copy: the exchange stays as it was sent.
	r := *x.req
	r.run.loop = tool
	q := newPlanning()
	defer q.release()
	if !q.cut(&r, content.MinFold) {
		return 0
	}
	q.in.Moment = planner.Moment{Epoch: planner.NoEpoch, Loop: tool, Bound: r.thoughts.bound, Begun: true, Regretted: r.regretted.TooMuch()}
	q.in.Further = furtherRequests(x.req.session, x.req.View, l)
	q.gather(&r, l, x.start)
	q.in.Warm = 0
	cold := planner.Gain(&q.in, &q.scratch)
	q.in.Warm = len(r.Blocks)
	return max(0, cold-planner.Gain(&q.in, &q.scratch))
}

// Idle describes the conversation after Commit. It returns false if keeping the cache certainly
// gains nothing.
func (x *Exchange) Idle(t *wire.Turn) (Idle, bool) {
	// Side requests and summaries have no next request. Only caches with markers are refreshed by a
	// request that reads them.
	if x.standing.lineage == nil || x.req.rules.Regime != pricing.Markers || !x.req.View.OffersTools() || content.Compacts(x.req.View) {
		return Idle{}, false
	}
	x.req.session.Lock()
	defer x.req.session.Unlock()
	l := x.standing.lineage
	// Sub-agents and conversations that never read from the cache gain nothing. A ping of a request
	// that the provider answered with a summary would cause another summary.
	if l.Requests < 2 || l.Total.Read == 0 || t.Usage.Prompt() == 0 || t.Compacted || !x.req.session.Main(l) {
		return Idle{}, false
	}
	long := content.LongMarker(x.req.View)
	lifetime := l.TTL
	if lifetime == 0 {
		lifetime = x.req.rules.Lifetime(long)
	}
	prompts := 0
	if n := len(l.States); n > 0 {
		prompts = int(l.States[n-1].Task)
	}
	tool := len(t.Calls) > 0
	return Idle{
		Cold:    x.cold(l, tool),
		Lineage: l.ID(), Rules: x.req.rules, Lifetime: lifetime,
		Prompt: t.Usage.Prompt(), Tool: tool, Question: asks(t.Text),
		Prompts: prompts, Pauses: l.Pauses, Spent: l.Spent, Saved: l.Cost.ClientUnits - l.Cost.Units, Kept: l.Kept,
	}, true
}

// asks reports whether a text ends in a question.
func asks(text string) bool {
	const end = 200
	return strings.Contains(text[max(0, len(text)-end):], "?")
}

// Kept adds the net saving of the pings before this request.
func (x *Exchange) Kept(net float64) {
	x.req.session.Lock()
	defer x.req.session.Unlock()
	if x.standing.lineage != nil {
		x.standing.lineage.Kept += net
	}
}
