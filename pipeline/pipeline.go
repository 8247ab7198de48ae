// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package pipeline decides which blocks of a request to edit, and how.
//
// A decision runs the steps of one list. Each step is a function of the request, the stored state of
// its conversation, and the options. Edits of blocks are entered in the conversation's edit ledger.
// The ledger is replayed byte for byte on every later request, so the upstream's prefix cache keeps
// matching.
package pipeline

import (
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// steps lists the steps of a decision in the order in which they run, with the modes and turns that
// take them. A step that makes edits of a kind does not run for a request that goes without them.
var steps = [...]step{
	// Stubs name the expand tool, so the tool is decided before any fold.
	{"declare", whole, anyTurn, 0, (*request).declare},
	// The client was not shown intercepted calls, but the upstream's cache holds them.
	{"reinsert", whole, laterTurn, 0, (*request).reinsert},
	// Committed edits are reverted where the upstream has refused them or retains the history.
	{"withdraw", whole | retained, anyTurn, 0, (*request).withdraw},
	// Without its tools, a request for a summary would miss the whole cached conversation.
	{"restore tools", whole, laterTurn, wire.EditTools | wire.EditText, (*request).restoreTools},
	// Facts about the new blocks: later steps and later requests choose blocks by them.
	{"learn", whole | retained, anyTurn, 0, (*request).learn},
	// Signs that the model missed folded text: each makes the planner more careful.
	{"misses", whole, laterTurn, wire.EditText, (*request).findMisses},
	// Context management that the client orders and the upstream does not know.
	{"clear", whole, anyTurn, wire.EditText, (*request).clear},
	// New results are shortened now, because each later change would invalidate cached bytes.
	{"admit", planned | eager, anyTurn, wire.EditText, (*request).admit},
	// Folded text that the agent is about to need follows the newest result, shortened by admission.
	{"give back", planned, laterTurn, wire.EditText, (*request).giveBack},
	// Folds of the whole history, where they pay for the cached bytes that they invalidate.
	{"plan", planned, anyTurn, wire.EditText, (*request).plan},
	// Results that the model has not referred to become stubs.
	{"prune", eager, anyTurn, wire.EditText, (*request).prune},
	// Long results keep their first line.
	{"compact", eager, anyTurn, wire.EditText, (*request).compactToolResults},
	// Small results behind a compacted one are free to prune now.
	{"prune again", eager, anyTurn, wire.EditText, (*request).prune},
	// Announcements of calls are free to remove behind the edits so far.
	{"strip narration", planned | eager, anyTurn, wire.EditText, (*request).stripNarration},
	// Thinking of finished responses is free to remove there, too.
	{"strip thinking", eager, anyTurn, wire.EditText, (*request).stripThinking},
	// Prose that the upstream reads without its cache anyway loses words.
	{"compress", planned | eager, anyTurn, wire.EditText, (*request).compress},
	// No edit so far may stand before thinking that the provider checks.
	{"bind thinking", planned | eager, anyTurn, wire.EditText, (*request).bindThinking},
	// The client's markers get the lifetime that the session wants.
	{"lengthen", whole, anyTurn, wire.EditMarkers | wire.EditText, (*request).lengthen},
	// Markers of the free slots close what the edits have settled, with the same lifetime.
	{"breakpoints", whole, anyTurn, wire.EditMarkers, (*request).breakpoints},
	// The lengths are estimated from the edits, before an error can revert them.
	{"estimate", whole | retained, anyTurn, 0, (*request).estimate},
	// All edits go into the client's bytes at once.
	{"splice", whole | retained, anyTurn, 0, (*request).splice},
}

// step is one step of a decision.
type step struct {
	name  string
	modes mode
	later bool           // only for a request that continues a conversation
	kinds wire.EditKinds // the kinds of edits that the step makes
	run   func(*request)
}

// The turns of a conversation that take a step.
const (
	anyTurn   = false
	laterTurn = true
)

// mode says which edits of the history a request may have.
type mode uint8

// The modes. A request has exactly one.
const (
	retained mode = 1 << iota // the provider retains the history; the request holds only its end
	ordered                   // the client orders what to clear, and no other edit removes history
	planned                   // edits are free or pay: the policies cost_aware and observe
	eager                     // every edit that the zones allow: the policy eager

	whole = ordered | planned | eager // the request holds the whole history
)

// takes reports whether a step runs for a request.
func (s *step) takes(r *request) bool {
	return s.modes&r.mode != 0 && (!s.later || r.match.Lineage != nil) && s.kinds&r.off == 0
}

// Pipeline decides about requests. It is stateless and safe for concurrent use.
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
}

// New returns a pipeline. rules returns the rules and prices of the upstream's prefix cache for a
// model.
func New(o Options, rules func(model string, at time.Time) pricing.Rules) *Pipeline {
	return &Pipeline{options: o.WithDefaults(), rules: rules}
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
	x := &Exchange{Policy: p.options.Policy}
	r := &x.req
	r.begin(p, v, s, now, off)
	r.prompt = &x.Prompt
	r.Decode()
	defer r.Release()
	for i := range steps {
		if s := &steps[i]; s.takes(r) {
			s.run(r)
		}
	}
	l := r.match.Lineage
	x.Decision, x.Lineage = r.decision, l.ID()
	x.Interceptor = Interceptor{Lost: r.lost, x: x, whole: l != nil && l.Copied}
	return x
}
