// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Pipeline runs the stages over requests. It is stateless and safe for concurrent use.
type Pipeline struct {
	// Target returns the upstream's format for requests in a client's format. Default: the same
	// format.
	Target func(client wire.Format) wire.Format

	// Marks reports whether the translation of a request adds a cache marker. Nil: never.
	Marks func(v *wire.View) bool
	// TakesMarkers reports whether requests in a client's format may get markers. Default: those of
	// formats whose clients set markers.
	TakesMarkers func(client wire.Format) bool
	// Manages reports whether the upstream carries out context management for a client's format,
	// see [wire.View.Management]. Default: always.
	Manages func(client wire.Format) bool

	// ToolBounds returns the upstream's limits for the tools of a request in a client's format.
	// Default: none.
	ToolBounds func(client wire.Format) wire.ToolBounds

	// Compress configures the removal of words from prose. Default: nil, all words stay.
	Compress *Compress

	options Options
	rules   func(model string, at time.Time) pricing.Rules
	stages  []func(*request)
}

// New returns a pipeline. rules returns the rules and prices of the upstream's prefix cache for a
// model.
func New(o Options, rules func(model string, at time.Time) pricing.Rules) *Pipeline {
	p := &Pipeline{options: o.WithDefaults(), rules: rules}
	if p.options.Policy == Eager {
		p.stages = []func(*request){
			(*request).prune,
			(*request).compactToolResults,
			(*request).prune, // again, for results that became free through the edits since
			(*request).stripNarration,
			(*request).stripThinking,
			(*request).compress,
			(*request).bindThinking,
		}
	} else {
		p.stages = []func(*request){
			(*request).stripNarration,
			(*request).compress,
			(*request).bindThinking,
		}
	}
	return p
}

// Policy is the policy in force.
func (p *Pipeline) Policy() Policy { return p.options.Policy }

// Begin decides about the edits of a request. It never fails: without edits, the body is the
// client's own. Exactly one of [Exchange.Commit] and [Exchange.Abandon] must follow.
func (p *Pipeline) Begin(v *wire.View, s *sessioncache.Session, now time.Time) *Exchange {
	return p.BeginWithout(v, s, now, 0)
}

// BeginWithout is Begin without new edits of some kinds. Edits that the conversation has committed
// to stay.
func (p *Pipeline) BeginWithout(v *wire.View, s *sessioncache.Session, now time.Time, off wire.EditKinds) *Exchange {
	s.Lock()
	defer s.Unlock()
	m := s.Match(v)
	upstream := v.Format
	if p.Target != nil {
		upstream = p.Target(v.Format)
	}
	// Thinking of other formats becomes reasoning items of the Responses API.
	sealed := !v.Traits().KeepsAnswers && upstream.Traits().KeepsAnswers
	both := new(struct { // one allocation
		exchange Exchange
		request  request
	})
	r := newRequest(&both.request, &p.options, p.rules(v.Model, now).Asked(v), v, s, m, sealed, now)
	r.omission.words, r.orders = p.Compress, orders{v.Management(), p.Manages != nil && !p.Manages(v.Format)}
	if p.ToolBounds != nil {
		r.offer.bounds = p.ToolBounds(v.Format)
	}
	r.offer.flat = upstream != v.Format
	r.translated = upstream != v.Format
	r.marking.translated = p.Marks != nil && p.Marks(v)
	r.marking.possible = v.Traits().Markers || p.TakesMarkers != nil && p.TakesMarkers(v.Format)
	x := &both.exchange
	x.Policy, x.req, x.standing.match, x.start, x.Lineage = p.options.Policy, r, m, now, m.Lineage.ID()
	x.Prompt.Body = v.Raw
	r.Decode()
	defer r.Release()
	var refused wire.EditKinds
	if m.Lineage != nil {
		refused = m.Lineage.Refused
	}
	x.refusal.off = off | refused
	if !v.Conversation.Partial {
		// The tool and the intercepted calls come first: the stages below count on them.
		r.declare(m)
		r.reinsert(m)
		if refused.Has(wire.EditTools) || off.Has(wire.EditTools) && m.Lineage == nil {
			r.withdraw(m)
		}
	}
	if v.Conversation.Partial || x.refusal.off.Has(wire.EditText) {
		learnBlocks(&r.History)
		// The provider retains the history, or the upstream refused edits of it: only edits that
		// the request cannot go without stay.
		if v.Conversation.Partial || refused.Has(wire.EditText) {
			r.keep(m)
		}
		if v.Conversation.Partial {
			r.withdraw(m)
			x.Decision = planner.Decision{Epoch: planner.NoEpoch, Reason: "the provider holds the history"}
			x.settle(nil)
			return x
		}
		x.settle(x.markers())
		return x
	}
	if !x.refusal.off.Has(wire.EditTools) {
		r.redefine(m, upstream)
	}
	learnBlocks(&r.History)
	// Under observe no fold was sent, so the model cannot miss any.
	if l := m.Lineage; l != nil && !l.Observed && p.options.Policy != Observe {
		r.regretted = findMisses(&r.History, l)
	}
	r.clear(m.Lineage)
	if r.orders.given.Cuts() {
		x.Decision = r.ordered()
	} else {
		r.admit()
		if p.options.Policy != Eager {
			r.giveBack(m.Lineage)
			x.Decision = r.plan(m.Lineage, now)
		}
		for _, run := range p.stages {
			run(r)
		}
	}
	if !x.refusal.off.Has(wire.EditMarkers) {
		r.marking.long = r.lengthens(m.Lineage)
	}
	x.settle(x.markers())
	return x
}

// markers returns the cache markers of an exchange, unless they are off.
func (x *Exchange) markers() []wire.Edit {
	if x.refusal.off.Has(wire.EditMarkers) {
		return nil
	}
	return x.req.breakpoints()
}
