// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"math"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// request is the state of one request in the steps.
type request struct {
	content.History
	p       *Pipeline
	o       *Options // of the pipeline
	rules   pricing.Rules
	session *sessioncache.Session
	match   sessioncache.Match // the conversation that the request continues
	start   time.Time          // by the caller's clock

	// The rest of these facts also stays as it is from the first step on.
	mode     mode
	upstream wire.Format
	cached   cached
	run      run
	zones    content.Zones
	orders   orders
	// refused are the kinds of edits that the upstream refused in the conversation before. off are
	// all kinds that the request goes without.
	refused, off wire.EditKinds
	// binds reports whether thinking is bound to the blocks before it: the provider checks it, or
	// drops it after a change.
	binds bool
	// sealed reports whether thinking is sent as reasoning items of the Responses API. Like these,
	// it is always sent again.
	sealed bool

	// The edits, and the state of the steps that make them.
	ledger  ledger
	offer   offer
	marking marking
	// lost reports that intercepted calls of the client's last message could not be put back.
	lost bool
	// regretted holds the missed folds.
	regretted Misses
	// wanted are the texts without a known short form. took is the compression time of the texts
	// shortened now.
	wanted []int
	took   time.Duration

	// The result.
	decision planner.Decision
	change   change
	sizing   sizing
	// computed reports, under observe, that the edits would have changed the body.
	computed bool
	prompt   *Prompt // of the exchange
}

// orders holds the client's instructions for a long history (context management).
type orders struct {
	given wire.Management
	// ours reports whether the pipeline carries them out, because the upstream does not.
	ours bool
}

// offer holds the tools added to the request.
type offer struct {
	// tools are the conversation's tools for a request for a summary, nil for none.
	tools []byte
	// expand says how the request handles the expand tool. without says that the conversation goes
	// on without the tool.
	expand  expandTool
	without bool
}

// marking holds the cache markers.
type marking struct {
	// added are the markers of the free slots.
	added []wire.Edit
	// at is the end of the cache entry that this request's fold builds on. stake is the expected
	// start of the next fold.
	at, stake int
	// long reports that the client's markers are sent with the long lifetime.
	long bool
	// possible reports that the request may get markers. translated reports that the translation
	// marks its end.
	possible, translated bool
}

// change is the extent of the edits made in a request.
type change struct {
	deep    bool // a forwarded block was edited
	broken  int  // blocks before the first edit
	settled int  // blocks before the hot tail, when folded
	stake   int  // blocks before the marker that keeps an entry alive
}

// begin finds the request's conversation and its state before the first step.
func (r *request) begin(p *Pipeline, v *wire.View, s *sessioncache.Session, now time.Time, off wire.EditKinds) {
	o, m := &p.options, s.Match(v)
	*r = request{
		History: content.History{View: v, Blocks: v.MessageBlocks(), Known: m.Common, Learned: m.Common},
		p:       p, o: o, rules: p.rules(v.Model, now).Asked(v), session: s, match: m, start: now,
		upstream: v.Format, run: findRun(v), zones: content.NewZones(v, *o.Zones.Frozen, *o.Zones.Hot, *o.Zones.MinMessages),
		orders: orders{v.Management(), p.Manages != nil && !p.Manages(v.Format)},
		off:    off, ledger: ledger{broken: math.MaxInt32},
		marking: marking{
			possible:   v.Traits().Markers || p.TakesMarkers != nil && p.TakesMarkers(v.Format),
			translated: p.Marks != nil && p.Marks(v),
		},
	}
	if p.Target != nil {
		r.upstream = p.Target(v.Format)
	}
	switch {
	case v.Conversation.Partial:
		r.mode, r.decision = retained, planner.Decision{Epoch: planner.NoEpoch, Reason: "the provider holds the history"}
	case r.orders.given.Cuts():
		r.mode = ordered
	case o.Policy == Eager:
		r.mode = eager
	default:
		r.mode = planned
	}
	l := m.Lineage
	var known []sessioncache.BlockState
	if l != nil {
		known = l.States[:min(m.Common, len(l.States))]
		r.refused = l.Refused
		r.off |= l.Refused
	}
	r.States = sessioncache.NewBlockStates(len(r.Blocks), known...)
	// Thinking of other formats becomes reasoning items of the Responses API.
	r.sealed = !v.Traits().KeepsAnswers && r.upstream.Traits().KeepsAnswers
	r.binds = r.rules.BindsThinking || r.rules.BindsReasoning && r.lastReasoning() >= 0
	r.run.answer = r.LastAnswer()
	r.cached = newCached(&r.History, &r.rules, s, l, now)
	if l == nil {
		return
	}
	// A snapshot does not contain all facts about the blocks: learn them again.
	if l.Restored() {
		r.Learned = 0
	}
	only := o.Policy == Observe
	if l.Observed != only || only && !l.Departed {
		// Edits that were only observed were never sent, and the reverse. A restarted process does
		// not know the upstream's cache for them either.
		for i := range known {
			r.States[i].Edit = nil
		}
	}
	if l.Observed != only {
		r.cached.settled, r.ledger.turned = 0, true
	}
}

// run is the open run of tool calls in a request.
type run struct {
	// answer is the first block of the last response.
	answer int
	// loop reports whether the request continues a run.
	loop bool
	// task is the first block of the run, or the number of blocks.
	task int
}

// findRun determines whether the request continues a run of tool calls. The run begins after the
// last human prompt.
func findRun(v *wire.View) run {
	n := len(v.MessageBlocks())
	r := run{task: n}
	for i := len(v.Messages) - 1; i >= 0; i-- {
		m := &v.Messages[i]
		switch {
		case m.Role == wire.RoleAssistant:
			if r.task == n && !r.loop {
				return r // the request ends in a prompt
			}
			r.task = int(m.First) - v.System
		case content.AnswersTool(v, m):
			r.loop = true
		case m.Role == wire.RoleUser:
			if r.loop {
				return r
			}
		}
	}
	return r
}
