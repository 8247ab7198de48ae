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
	"math"
	"slices"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
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
	// Nor would a request with the same tools in another order find any of it.
	{"order tools", whole, laterTurn, wire.EditTools, (*request).orderTools},
	// A new prefix makes edits of the whole history free.
	{"compare prefix", whole, laterTurn, 0, (*request).comparePrefix},
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
	return s.modes&r.mode != 0 && (!s.later || r.match.Conversation != nil) && s.kinds&r.off == 0
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

	options  Options
	observed Options // of the sessions held out
	rules    func(model string, at time.Time) pricing.Rules
}

// New returns a pipeline. rules returns the rules and prices of the upstream's prefix cache for a
// model.
func New(o Options, rules func(model string, at time.Time) pricing.Rules) *Pipeline {
	observed := o
	observed.Policy = Observe
	return &Pipeline{options: o.WithDefaults(), observed: observed.WithDefaults(), rules: rules}
}

// Policy is the policy in force.
func (p *Pipeline) Policy() Policy { return p.options.Policy }

// Begin decides about the edits of a request. It never fails: without edits, the body is the
// client's own. Exactly one of [Transaction.Commit] and [Transaction.Abandon] must follow.
func (p *Pipeline) Begin(v *wire.View, s *sessioncache.Session, now time.Time) *Transaction {
	return p.BeginWithout(v, s, now, 0)
}

// BeginWithout is Begin without new edits of some kinds. Edits that the conversation has committed
// to stay.
func (p *Pipeline) BeginWithout(v *wire.View, s *sessioncache.Session, now time.Time, off wire.EditKinds) *Transaction {
	s.Lock()
	defer s.Unlock()
	x := new(Transaction)
	r := &x.req
	r.begin(p, v, s, now, off)
	x.Policy = r.o.Policy
	r.prompt = &x.Prompt
	r.Decode()
	defer r.Release()
	for i := range steps {
		if s := &steps[i]; s.takes(r) {
			s.run(r)
		}
	}
	l := r.match.Conversation
	x.Decision, x.Conversation = r.decision, l.ID()
	x.Answerer = Answerer{Lost: r.lost, x: x, whole: l != nil && l.Copied}
	return x
}

// optionsFor returns the options for a request that continues a conversation, nil for a new one.
func (p *Pipeline) optionsFor(s *sessioncache.Session, l *sessioncache.Conversation) *Options {
	// A withdrawal of edits in force would cost the control group a cache miss that no client has caused.
	edited := l != nil && l.Diverged && !l.Observed
	if p.options.Holdout > 0 && s.Sample() < p.options.Holdout && !edited {
		return &p.observed
	}
	return &p.options
}

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
	upstream wire.Format
	cached   cached
	run      run
	zones    content.Zones
	orders   orders
	mode     mode
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
	ledger ledger
	// entries are the blocks with an entry in the ledger, in order: from the estimate on all, before
	// it those of the last request. Some may have lost theirs since.
	entries []int32
	offer   offer
	marking marking
	// misses holds the missed folds.
	misses Misses
	// wanted are the texts without a known short form. took is the compression time of the texts
	// shortened now.
	wanted []int
	took   time.Duration
	// restored is the number of tokens of the texts restored now.
	restored float64

	// The result.
	decision planner.Decision
	change   change
	sizing   sizing
	// lost reports that intercepted calls of the client's last message could not be put back.
	lost bool
	// computed reports, under observe, that the edits would have changed the body.
	computed bool
	prompt   *Prompt // of the transaction
}

// orders holds the client's instructions for a long history (context management).
type orders struct {
	given wire.Management
	// ours reports whether the pipeline carries them out, because the upstream does not.
	ours bool
}

// offer holds the tools added to the request, and their order.
type offer struct {
	// tools are the conversation's tools for a request for a summary, nil for none.
	tools []byte
	// order has the indices of the client's tools in the order in which they are sent, nil for the
	// client's order.
	order []int32
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
	m := s.Match(v)
	o := p.optionsFor(s, m.Conversation)
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
	l := m.Conversation
	var known []sessioncache.BlockState
	if l != nil {
		known = l.States[:min(m.Common, len(l.States))]
		r.entries = l.Edited()
		r.refused = l.Refused
		r.off |= l.Refused
	}
	r.States = sessioncache.NewBlockStates(len(r.Blocks), known...)
	n, _ := slices.BinarySearch(r.entries, int32(len(known)))
	r.entries = r.entries[:n]
	// Thinking of other formats becomes reasoning items of the Responses API.
	r.sealed = !v.Traits().KeepsAnswers && r.upstream.Traits().KeepsAnswers
	r.binds = r.rules.BindsThinking || r.rules.BindsReasoning && r.lastReasoning() >= 0
	r.run.answer = r.LastAnswer()
	if l == nil {
		// This process has not seen the history. If it has been watching for longer than any
		// lifetime, the cache is cold. Otherwise the cache may be warm, and every block that an
		// upstream may have received counts as forwarded.
		maxTTL := r.rules.TTL // the requested lifetime, markers excepted
		if r.rules.Regime == pricing.Markers {
			maxTTL = max(maxTTL, r.rules.LongTTL)
		}
		r.cached = cached{forwarded: r.LastSaid(), cold: r.rules.TTL > 0 && s.Unseen > maxTTL+ttlMargin(maxTTL)}
		return
	}
	r.cached = cached{forwarded: r.Known, cold: hasExpired(v, &r.rules, l, now)}
	if l.Settled <= r.Known {
		r.cached.settled = l.Settled
	}
	if l.Beyond && !v.Conversation.Partial && !r.cached.cold {
		r.cached.unmodified = max(r.LastSaid(), r.Known)
		r.cached.forwarded = r.cached.unmodified
	}
	// A snapshot does not contain all facts about the blocks: learn them again.
	if l.Restored() {
		r.Learned = 0
	}
	only := o.Policy == Observe
	if l.Observed != only || only && !l.Departed {
		// Edits that were only computed were never sent, and the model has missed no text; and the reverse.
		// A restarted process does not know the upstream's cache for them either.
		for i := range known {
			r.States[i].Edit, r.States[i].Missed = nil, false
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

// cached describes the upstream's cache before the request arrives.
type cached struct {
	// forwarded is the number of blocks that may be cached in the bytes of the last request.
	forwarded int
	// unmodified is the number of blocks that the provider received unmodified, in requests with the end
	// of the conversation only. Admission leaves them alone.
	unmodified int
	// cold reports that the upstream's cache has certainly expired.
	cold bool
	// settled is the end of the last fold, in blocks.
	settled int
	// replaced reports that the tools or the system prompt have changed since the last request, so that
	// the cache finds no message.
	replaced bool
}

// hasExpired reports whether the cached prefix of a conversation has certainly expired.
func hasExpired(v *wire.View, rules *pricing.Rules, l *sessioncache.Conversation, now time.Time) bool {
	ttl := l.TTL
	if ttl == 0 {
		ttl = rules.Lifetime(content.LongMarker(v))
	}
	return ttl > 0 && !l.Started.IsZero() && now.Sub(l.LastUse()) > ttl+ttlMargin(ttl)
}

// ttlMargin is the safety margin around a lifetime: clocks differ, and the request takes time to
// arrive.
func ttlMargin(ttl time.Duration) time.Duration { return min(ttl/10, time.Minute) }
