// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// account holds the cost of a turn.
type account struct {
	bill      Bill
	billed    bool
	estimated bool         // the upstream did not report all of the usage
	front     uint64       // hash of the client's prompt before its first message block
	calls     []wire.Usage // the calls of the model that make up the bill
}

// Bill returns the cost of the turn, committed or not. Usage that the upstream did not report is
// estimated, see [Exchange.Estimated]. Without a response, or with one that failed before it began,
// the bill is zero.
func (x *Exchange) Bill(t *wire.Turn) Bill {
	if t == nil {
		return x.account.bill
	}
	x.req.session.Lock()
	defer x.req.session.Unlock()
	x.settleBill(t)
	return x.account.bill
}

// Estimated reports whether the bill contains estimated tokens.
func (x *Exchange) Estimated() bool { return x.account.estimated }

// settleBill computes the bill, once. The session is locked.
func (x *Exchange) settleBill(t *wire.Turn) {
	if x.account.billed {
		return
	}
	calls, estimated := x.complete(t)
	if estimated {
		// The turn itself keeps the reported usage.
		completed := *t
		completed.Usage, x.account.estimated = sum(calls), true
		t = &completed
	}
	if t.Usage.Prompt() > 0 {
		x.account.calls = calls
		x.account.bill, x.account.billed = x.charge(t, calls), true
	}
}

func sum(calls []wire.Usage) (all wire.Usage) {
	for _, u := range calls {
		all = all.Add(u)
	}
	return all
}

// Continuations returns the cost of each continuation of the turn, as part of [Exchange.Bill].
func (x *Exchange) Continuations(t *wire.Turn) (out []Bill) {
	if t == nil || len(x.Interceptor.calls) == 0 || len(x.account.calls) == 0 {
		return nil
	}
	rules := x.served(t)
	for _, u := range x.account.calls[1:] {
		b := newBill(&rules, u)
		out = append(out, Bill{Actual: b.Actual, Cost: b.Cost, Dollars: b.Dollars})
	}
	return out
}

// calls returns the usage of each call of the model in a turn.
func (x *Exchange) calls(t *wire.Turn) []wire.Usage {
	switch {
	case len(x.Interceptor.calls) > 0:
		return x.Interceptor.calls
	case len(t.Iterations) > 0:
		return t.Iterations
	}
	return []wire.Usage{t.Usage}
}

// charge computes the bill, and simulates the cache entries that the client's own bytes would have
// left. The session is locked.
func (x *Exchange) charge(t *wire.Turn, calls []wire.Usage) Bill {
	rules := x.served(t)
	bill := x.compare(t, calls, &rules)
	if x.req.marking.translated {
		bill.Mark(&rules)
	}
	return bill
}

// Bound limits reported usage to the model's window and the request's maximum output, call by call.
// It reports whether any usage exceeded them.
func (x *Exchange) Bound(t *wire.Turn) (bounded bool) {
	if t == nil {
		return false
	}
	calls := x.calls(t)
	for i := range calls {
		u, more := x.req.rules.Bound(calls[i], x.req.View.Reply.MaxTokens)
		calls[i], bounded = u, bounded || more
	}
	if bounded {
		t.Usage = sum(calls)
		t.Final, _ = x.req.rules.Bound(t.Final, x.req.View.Reply.MaxTokens)
		x.Interceptor.first, _ = x.req.rules.Bound(x.Interceptor.first, x.req.View.Reply.MaxTokens)
	}
	return bounded
}

// Service returns the service of the request, as the response names it, or else as the request
// asked for it.
func (x *Exchange) Service(t *wire.Turn) wire.Service {
	if x.req.translated {
		// A translated request names no service in the upstream's own terms.
		return t.Service
	}
	return t.Service.Or(x.req.View.Reply.Service)
}

// served returns the rules with the prices of the service used.
func (x *Exchange) served(t *wire.Turn) pricing.Rules { return x.req.rules.Served(x.Service(t)) }

// compare computes both sides of the bill.
func (x *Exchange) compare(t *wire.Turn, calls []wire.Usage, rules *pricing.Rules) Bill {
	u := t.Held()
	bill := newBill(rules, calls...)
	if len(x.Interceptor.calls) > 0 {
		// Without folds, the model would have given its last output at once.
		u = calls[0]
		u.Output = calls[len(calls)-1].Output
		bill.Own(rules, u)
	}
	if x.req.View.Conversation.Partial { // its blocks do not show the provider's history
		if l := x.standing.match.Lineage; l != nil && l.Less > 0 {
			own := bill.Client
			// The provider retains the edited history. The client's own would be longer by these
			// tokens.
			own.Read += int64(l.Less)
			bill.Own(rules, own)
		}
		return bill
	}
	r := billedRequest{
		View: x.req.View, States: x.req.States, Start: x.start, Rules: rules, Calibration: &x.req.session.Calibration, Cache: &x.req.session.Counterfactual,
		Markers: x.Prompt.Markers, Marked: x.req.marking.translated, Diverged: x.diverged(), Previous: x.previous(),
	}
	if x.Prompt.Edited && x.Prompt.SentTokens > 0 {
		r.Removed = int64(x.Prompt.OriginalTokens - x.Prompt.SentTokens)
	}
	would := x.would(r)
	own, front := counterfactual(r, u)
	// Both sides are equal as long as only the client's own bytes went out. They also count as
	// equal if the provider cut the history itself: it would have cut the client's own bytes, too,
	// with an unknown effect on the cache.
	if x.account.front = front; (x.Prompt.Edited || r.Diverged) && !t.Final.Reported && !x.cutByServer(t) {
		bill.Own(rules, own)
	}
	if would != nil {
		sent, _ := counterfactual(*would, u)
		bill.Compare(rules, own, sent)
	}
	return bill
}

// would returns the request with the edits that were only computed. It returns nil as long as these
// edits have changed nothing in the conversation. It must run before the client's side is
// simulated. The session is locked.
func (x *Exchange) would(r billedRequest) *billedRequest {
	s := x.req.session
	if x.Policy != Observe {
		s.Hypothetical = nil
		return nil
	}
	if s.Hypothetical == nil {
		if !x.proposed.computed {
			return nil
		}
		s.Hypothetical = s.Counterfactual.Clone()
	}
	w := r
	w.Sent, w.Marks, w.Long, w.Cache = true, x.proposed.marks, x.req.marking.long, s.Hypothetical
	w.Markers, w.Diverged = len(x.proposed.marks), x.departed()
	w.Removed = int64(x.Prompt.SentTokens - x.Prompt.OriginalTokens)
	// The computed edit would have broken the cached prefix here.
	w.Previous.Common = min(r.Previous.Common, x.change.broken)
	return &w
}

// previous returns the request that this one continues.
func (x *Exchange) previous() previousTurn {
	p, l := x.standing.before.previous, x.standing.match.Lineage
	if x.standing.lineage == nil && l != nil {
		p = previousTurn{Front: l.Front, Ago: x.start.Sub(l.Started), Common: x.standing.match.Common}
	}
	return p
}

// departed reports whether the computed edits of earlier requests would have changed them.
func (x *Exchange) departed() bool {
	if x.standing.lineage != nil {
		return x.standing.before.departed
	}
	return x.standing.match.Lineage != nil && x.standing.match.Lineage.Departed
}

// diverged reports whether earlier requests differed from the client's own bytes at the client's
// own times.
func (x *Exchange) diverged() bool {
	if x.standing.lineage != nil {
		return x.standing.before.diverged
	}
	l := x.standing.match.Lineage
	// Edits change the bytes; pings keep the cache warm longer.
	return l != nil && (l.Diverged || !l.Warmed.IsZero())
}
