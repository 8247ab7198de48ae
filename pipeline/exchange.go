// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Exchange is one request, from the decision about its edits to the end of its response. One
// goroutine at a time may call its methods.
type Exchange struct {
	// Prompt is the request to send.
	Prompt Prompt
	// Interceptor answers the intercepted calls.
	Interceptor Interceptor
	// Policy is the policy in force.
	Policy Policy
	// Decision says why history was edited or left alone.
	Decision planner.Decision
	// Lineage is the number of the conversation within its session, -1 for a new one before Commit.
	Lineage int
	// Lesson is set by Commit.
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

// Lesson holds the observations of a turn about its conversation.
type Lesson struct {
	// Break is the reason why the upstream's cache held less than expected, NoBreak if it did not.
	Break Break
	// Regret counts the signs of a missed fold.
	Regret missSigns
	// CutShort tells that the upstream has left a part of the prompt out.
	CutShort bool
}

// standing is the place of an exchange in its conversation.
type standing struct {
	match   sessioncache.Match
	before  before
	lineage *sessioncache.Lineage // set by Join or Commit
}

// proposed holds the markers and edits of the pipeline.
type proposed struct {
	marks    []wire.Edit // the markers
	computed bool        // whether there are markers or edits
}

// change is the extent of the edits made in a request.
type change struct {
	deep    bool // a forwarded block was edited
	broken  int  // blocks before the first edit
	settled int  // blocks before the hot tail, when folded
	stake   int  // blocks before the marker that keeps an entry alive
}

// changed returns the extent of a request's edits.
func changed(r *request) change {
	c := change{broken: len(r.Blocks), settled: r.hot(), stake: r.marking.stake}
	for i := range r.ledger.fresh {
		c.deep = c.deep || i < r.cached.forwarded
		c.broken = min(c.broken, i)
	}
	return c
}

// settle determines the sent request. The session is locked.
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
		x.change.deep = true // the estimate does not match the sent prompt
	}
}

// Claim makes new edits durable and visible to other processes before they are forwarded. Call it
// before sending the request. It returns false if another process has forwarded some of the blocks
// in another form; then the request needs a new decision.
func (x *Exchange) Claim(ctx context.Context, store *sessioncache.Store) bool {
	r := x.req
	if !x.Prompt.Edited || x.refusal.off.Has(wire.EditText) || r.View.Conversation.Partial || !x.adds() {
		return true
	}
	return store.Claim(ctx, r.session, x.standing.match, r.View, r.States, func(l *sessioncache.Lineage) {
		l.Observed, l.Diverged = false, true
		l.Model, l.Kind = r.View.Model, sessioncache.RequestKind(r.View)
		l.Expand = r.offer.keeps(l.Expand)
	})
}

// adds reports whether a request contains edits that its conversation has not committed to.
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

// OffersTools reports whether the model is offered any tool, including tools retained by the
// provider.
func (x *Exchange) OffersTools() bool {
	if v := x.req.View; v.OffersTools() || !v.InheritsTools() {
		return v.OffersTools()
	}
	l := x.standing.match.Lineage
	// The start of a conversation that began elsewhere is unknown: assume tools.
	return l == nil || l.Partial || l.Kind>>16 > 0
}

// Summarizes reports whether the request asks for a summary of the conversation.
func (x *Exchange) Summarizes() bool { return x.req != nil && content.Compacts(x.req.View) }

// Continues returns the number of the conversation that the request continues, or false for a new
// one.
func (x *Exchange) Continues() (lineage int, ok bool) {
	if x.standing.match.Lineage == nil {
		return 0, false
	}
	return x.standing.match.Lineage.ID(), true
}

// Start is the start of the request, by the caller's clock.
func (x *Exchange) Start() time.Time { return x.start }

// Rules returns the cache rules in force for the request.
func (x *Exchange) Rules() pricing.Rules { return x.req.rules }

// History returns the conversation in the request, block by block, with the stored state of each
// block. It is valid until Commit.
func (x *Exchange) History() *content.History { return &x.req.History }

// Loops reports whether the request continues a run of tool calls.
func (x *Exchange) Loops() bool { return x.req.run.loop }
