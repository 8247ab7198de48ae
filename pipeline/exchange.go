// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Exchange is one request, from the decision what to send to the end of its
// answer. Its methods are called by one goroutine at a time.
type Exchange struct {
	// Prompt is what to send.
	Prompt Prompt
	// Interceptor answers the calls that are kept from the client.
	Interceptor Interceptor
	// Policy is the policy in force.
	Policy Policy
	// Decision says why history was edited or left alone.
	Decision planner.Decision
	// Lineage numbers the conversation within its session, -1 for one that
	// begins with this request and was not committed yet.
	Lineage int
	// Lesson is what it has taught, once it is committed.
	Lesson Lesson

	req   *request
	start time.Time

	standing standing
	change   change
	proposed proposed
	sizing   sizing
	account  account
	refusal  refusal
}

// Lesson is what a turn has taught about the conversation.
type Lesson struct {
	// Break says why the upstream's cache held less than expected, NoBreak if it did
	// not.
	Break Break
	// Regret counts the signs that the model has missed folded text.
	Regret missSigns
	// CutShort tells that the upstream has left a part of the prompt out.
	CutShort bool
}

// standing is where an exchange stands among those of its conversation.
type standing struct {
	match   sessioncache.Match
	before  before
	lineage *sessioncache.Lineage // what Join or Commit made it part of
}

// proposed is what there is to send besides the client's own bytes.
type proposed struct {
	marks    []wire.Edit // the markers
	computed bool        // there are markers, or edits
}

// change is how far the edits that were made in a request reach.
type change struct {
	deep    bool // some were made of what had been forwarded
	broken  int  // blocks in front of the first of them
	settled int  // blocks in front of the hot tail, when folded
	stake   int  // blocks in front of the marker that keeps an entry alive
}

// changed sums up the edits of a request.
func changed(r *request) change {
	c := change{broken: len(r.Blocks), settled: r.hot(), stake: r.marking.stake}
	for i := range r.ledger.fresh {
		c.deep = c.deep || i < r.cached.forwarded
		c.broken = min(c.broken, i)
	}
	return c
}

// settle fixes what is sent. The session is locked.
func (x *Exchange) settle(markers []wire.Edit) {
	r := x.req
	l := x.standing.match.Lineage
	x.Interceptor = Interceptor{Lost: r.lost, req: r, prompt: &x.Prompt, whole: l != nil && l.Copied}
	x.change = changed(r)
	x.proposed = proposed{markers, len(markers) > 0 || r.marking.long || r.offer.tools != nil || r.edited()}
	var original sessioncache.Sizes
	x.sizing, original = measure(r)
	x.Prompt.estimate(r, x.standing.match.Lineage, &x.sizing, &original)
	x.Prompt.Compressed = r.compressed(x.standing.match.Lineage)
	x.Prompt.Applied = r.applied(x.standing.match.Lineage)
	if x.Prompt.make(r, markers) {
		x.change.deep = true // what was estimated is not what was sent
	}
}

// Claim has edits that the conversation has not committed to yet outlive the process,
// before they are forwarded, and other processes know of them. It is called before the
// request is sent. It returns false if another process has forwarded some of the
// blocks in another form: what to send must be decided anew.
func (x *Exchange) Claim(store sessioncache.Claimer) bool {
	r := x.req
	if !x.Prompt.Edited || x.refusal.off.Has(wire.EditText) || r.View.Conversation.Partial || !x.adds() {
		return true
	}
	return store.Claim(r.session, x.standing.match, r.View, r.States, func(l *sessioncache.Lineage) {
		l.Observed, l.Diverged = false, true
		l.Model, l.Kind = r.View.Model, sessioncache.RequestKind(r.View)
		l.Expand = r.offer.keeps(l.Expand)
	})
}

// adds reports whether a request goes out with edits that its conversation has not
// committed to.
func (x *Exchange) adds() bool {
	r, l := x.req, x.standing.match.Lineage
	x.req.session.Lock()
	defer x.req.session.Unlock()
	if l == nil && r.offer.expand == expandDeclared {
		return true
	}
	for i := range r.States {
		s := &r.States[i]
		if s.Edit == nil && s.Inserted == nil {
			continue
		}
		if l == nil || i >= min(x.standing.match.Common, len(l.States)) || l.States[i].Edit != s.Edit || l.States[i].Inserted != s.Inserted {
			return true
		}
	}
	return false
}

// OffersTools reports whether the model is offered any tool, be it by what the provider
// holds. Of that which began elsewhere nothing is known: it is taken for a conversation.
func (x *Exchange) OffersTools() bool {
	if v := x.req.View; v.OffersTools() || !v.InheritsTools() {
		return v.OffersTools()
	}
	l := x.standing.match.Lineage
	return l == nil || l.Partial || l.Kind>>16 > 0
}

// Summarizes reports whether the request asks for a summary of a conversation.
func (x *Exchange) Summarizes() bool { return x.req != nil && content.Compacts(x.req.View) }

// Continues returns the number of the conversation that the request takes up
// again; false where it begins one.
func (x *Exchange) Continues() (lineage int, ok bool) {
	if x.standing.match.Lineage == nil {
		return 0, false
	}
	return x.standing.match.Lineage.ID(), true
}

// Start is when the request began, by the clock it was given.
func (x *Exchange) Start() time.Time { return x.start }

// Rules are the cache rules in force for the request.
func (x *Exchange) Rules() pricing.Rules { return x.req.rules }

// History is the conversation in the request, block by block, with what is remembered
// of each, for those who learn from it. It is good until the exchange is committed.
func (x *Exchange) History() *content.History { return &x.req.History }

// Loops reports whether the request continues a run of tool calls.
func (x *Exchange) Loops() bool { return x.req.run.loop }
