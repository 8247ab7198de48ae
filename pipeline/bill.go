// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"bytes"
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
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
	rules := x.req.rules.Served(x.Service(t))
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
	rules := x.req.rules.Served(x.Service(t))
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
	if x.req.upstream != x.req.View.Format {
		// A translated request names no service in the upstream's own terms.
		return t.Service
	}
	return t.Service.Or(x.req.View.Reply.Service)
}

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
		if l := x.req.match.Lineage; l != nil && l.Less > 0 {
			own := bill.Client
			// The provider retains the edited history. The client's own would be longer by these
			// tokens.
			own.Read += int64(l.Less)
			bill.Own(rules, own)
		}
		return bill
	}
	r := billedRequest{
		View: x.req.View, States: x.req.States, Start: x.req.start, Rules: rules, Calibration: &x.req.session.Calibration, Cache: &x.req.session.Counterfactual,
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
		if !x.req.computed {
			return nil
		}
		s.Hypothetical = s.Counterfactual.Clone()
	}
	w := r
	w.Sent, w.Marks, w.Long, w.Cache = true, x.req.marking.added, x.req.marking.long, s.Hypothetical
	w.Markers, w.Diverged = len(x.req.marking.added), x.departed()
	w.Removed = int64(x.Prompt.SentTokens - x.Prompt.OriginalTokens)
	// The computed edit would have broken the cached prefix here.
	w.Previous.Common = min(r.Previous.Common, x.req.change.broken)
	return &w
}

// previous returns the request that this one continues.
func (x *Exchange) previous() previousTurn {
	p, l := x.before.previous, x.req.match.Lineage
	if x.lineage == nil && l != nil {
		p = previousTurn{Front: l.Front, Ago: x.req.start.Sub(l.Started), Common: x.req.match.Common}
	}
	return p
}

// departed reports whether the computed edits of earlier requests would have changed them.
func (x *Exchange) departed() bool {
	if x.lineage != nil {
		return x.before.departed
	}
	return x.req.match.Lineage != nil && x.req.match.Lineage.Departed
}

// diverged reports whether earlier requests differed from the client's own bytes at the client's
// own times.
func (x *Exchange) diverged() bool {
	if x.lineage != nil {
		return x.before.diverged
	}
	l := x.req.match.Lineage
	// Edits change the bytes; pings keep the cache warm longer.
	return l != nil && (l.Diverged || !l.Warmed.IsZero())
}

// complete returns the usage of each call in a turn, with estimates for unreported usage, and
// whether there are any estimates. The session is locked.
func (x *Exchange) complete(t *wire.Turn) (calls []wire.Usage, estimated bool) {
	calls = slices.Clone(x.calls(t))
	output, last := x.outputOf(t), len(calls)-1
	if t.Usage.Prompt() == 0 {
		if t.Failed() && output == 0 {
			return calls, false // the upstream refused the request in the form of a response
		}
		u := x.expected()
		u.Output, u.Reported = t.Usage.Output, t.Usage.Reported
		calls, last, estimated = []wire.Usage{u}, 0, true
	}
	// The last call may have been cut off before its usage arrived, after earlier calls reported
	// theirs.
	for i := range calls {
		if calls[i].Prompt() == 0 && len(x.Interceptor.calls) > 0 {
			u := x.expected()
			u.Output = calls[i].Output
			calls[i], estimated = u, true
		}
	}
	// A stream that was cut off has reported at most its first count: Anthropic's message_start
	// says about 1, and only message_delta the whole.
	if told := sum(calls).Output; (!t.Done || told == 0) && output > told {
		calls[last].Output += output - told
		estimated = true
	}
	return calls, estimated
}

// outputOf estimates the output tokens that the client received.
func (x *Exchange) outputOf(t *wire.Turn) int64 {
	var sizes sessioncache.Sizes
	sizes[wire.KindText] += len(t.Text) + len(t.Thinking)
	for i := range t.Calls {
		sizes[wire.KindToolUse] += len(t.Calls[i].Name) + len(t.Calls[i].Arguments)
	}
	return int64(x.req.session.Calibration.Tokens(&sizes))
}

// expected returns the expected usage of the sent prompt. The session is locked.
func (x *Exchange) expected() wire.Usage {
	prompt := int64(x.Prompt.SentTokens)
	if x.Policy == Observe {
		prompt = int64(x.Prompt.OriginalTokens)
	}
	left, cause := x.before.left, x.before.cause
	if prev := x.req.match.Lineage; x.lineage == nil && prev != nil {
		left, cause = x.left(prev)
	}
	var u wire.Usage
	// The last request's cache entry counts as read, unless a reason speaks against it. The rest
	// counts as written if the provider writes this prompt to its cache.
	if cause == BreakUnknown && left >= int64(x.req.rules.MinTokens) {
		u.Read = min(left, prompt)
	}
	switch rest := prompt - u.Read; x.writes() {
	case writesNothing:
		u.Uncached = rest
	case writesShort:
		u.Write5m = rest
	case writesLong:
		u.Write1h = rest
	}
	return u
}

// The price of the part of a prompt that is written to the cache.
const (
	writesNothing = iota
	writesShort   // for the short lifetime
	writesLong    // for the long lifetime
)

// writes returns the price class of the uncached part of the prompt, by the provider's rules and
// the request's markers.
func (x *Exchange) writes() int {
	v := x.req.View
	switch x.req.rules.Regime {
	case pricing.Breakpoints:
		return writesShort
	case pricing.Markers:
	default:
		return writesNothing
	}
	marks := [][]byte{v.Bytes(v.Caching.AutoMarker)}
	for i := range v.Blocks {
		marks = append(marks, v.Bytes(v.Blocks[i].Marker))
	}
	found := writesNothing
	for _, m := range marks {
		switch {
		case x.req.marking.long && len(m) > 0, bytes.Contains(m, []byte(`"1h"`)):
			return writesLong
		case len(m) > 0:
			found = writesShort
		}
	}
	if x.Prompt.Markers > 0 || x.req.marking.translated {
		return writesShort
	}
	return found
}
