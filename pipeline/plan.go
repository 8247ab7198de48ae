// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"sync"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// planning holds the input of one plan, and reusable memory.
type planning struct {
	// Planning looks at every block. In long conversations, new memory would be half of a request's
	// allocations.
	in      planner.Input
	scratch planner.Scratch
	need    NeedScratch
	cuts    []cut
}

var plannings = sync.Pool{New: func() any { return &planning{need: NewNeedScratch()} }}

func newPlanning() *planning { return plannings.Get().(*planning) }

func (p *planning) release() {
	if p.need.Clear() {
		plannings.Put(p)
	}
}

// plan folds the blocks worth folding.
func (r *request) plan() {
	l := r.match.Conversation
	further := furtherRequests(r.session, r.View, l)
	if !r.View.OffersTools() || content.Compacts(r.View) {
		r.decision = planner.Decision{Epoch: planner.NoEpoch, Further: further, Reason: "side request"}
		return
	}
	q := newPlanning()
	defer q.release()
	q.in.Further = further
	q.in.Moment = planner.Moment{
		Epoch: planner.NoEpoch, Loop: r.run.loop, Bound: r.binds, Begun: l != nil,
		TooManyMisses: r.misses.TooMuch(),
	}
	switch {
	case r.cached.cold:
		q.in.Epoch = planner.Cold
	case l != nil && l.Model != r.View.Model && r.rules.Regime != pricing.KV:
		q.in.Epoch = planner.ModelChanged
	case r.cached.replaced:
		q.in.Epoch = planner.PrefixChanged
	case l != nil && r.Known < l.Len():
		q.in.Epoch = planner.Diverged
	}
	if q.in.Refuses() == "" {
		if !q.cut(r, content.MinFold) {
			r.decision = planner.Decision{Epoch: planner.NoEpoch, Further: further, Reason: planner.NothingToFold}
			return
		}
		q.gather(r)
	}
	p := planner.Make(&q.in, &q.scratch)
	r.marking.at = p.Entry
	if len(p.Folds) > 0 {
		p.Folded, p.Removed = r.fold(p.Folds)
	}
	r.decision = p.Decision
}

// gather collects the planner's input, after cut.
func (p *planning) gather(r *request) {
	in, l := &p.in, r.match.Conversation
	in.Care = r.o.Planner.Care() * r.misses.Care()
	in.Prices = plannerPrices(&r.rules, l)
	in.Harm = *r.o.Planner.Harm
	in.Past = plannerPast(l)
	in.Warm, in.Forwarded = r.cached.forwarded, r.cached.forwarded
	switch in.Epoch {
	case planner.Cold, planner.ModelChanged, planner.PrefixChanged:
		in.Warm = 0
	}
	in.Anywhere = r.rules.Regime == pricing.KV || r.rules.Regime == pricing.Automatic && !r.rules.Units
	// When observed edits begin to be sent, or the reverse, the old entries match no longer.
	if in.Entries = in.Entries[:0]; !r.ledger.turned {
		in.Entries = liveEntries(in.Entries, l, r.rules.TTL, r.start)
	}
	in.Lapsed = !in.Anywhere && hasLapsed(l, r.rules.TTL, r.start)
	e := newEstimator(&r.session.Calibration, l)
	in.Base, in.Total = 0, 0
	for i := range r.View.Blocks {
		if i == r.View.System {
			in.Base = in.Total
		}
		in.Total += e.Tokens(r.View.Blocks[i].Kind, r.View.Blocks[i].Span.Len())
	}
	in.Blocks = content.Zeroed(in.Blocks, len(r.Blocks))
	returned := returnedBlocks(&r.History, r.stubName)
	known := p.need.Appraise(&r.History, func(i int) bool {
		return p.cuts[i] != (cut{}) || len(returned) > 0 &&
			content.Folded(r.States[i].Edit)
	})
	gone := tokensLeftOut(l)
	for i, c := range p.cuts {
		b, kind := &in.Blocks[i], r.Blocks[i].Kind
		b.Tokens = e.Tokens(kind, r.Sent(i))
		if kind == wire.KindToolResult && gone > 0 {
			// The upstream clears the first results by itself: folding them saves nothing.
			gone--
			continue
		}
		if c == (cut{}) {
			continue
		}
		b.Whole, b.Part = e.Tokens(kind, c.all), e.Tokens(kind, c.part)
		if !r.Blocks[i].IsThinking() {
			b.Need = r.need(i, &known[i])
			// The result also carries restored texts. It is needed if any of them is.
			for _, j := range returned[i] {
				b.Need = 1 - (1-b.Need)*(1-r.need(j, &known[j]))
			}
		}
	}
}

// need returns the probability that the agent will need a block again.
func (r *request) need(i int, a *Appraisal) float64 {
	return calibratedNeed(r.match.Conversation, r.States[i].Class,
		r.misses.Need(&r.History, i, r.o.Planner.Need.Need(a)))
}

// foldable returns the approximate number of bytes that folding a block would save, 0 if it must
// not be folded.
func (r *request) foldable(i int) int {
	b, s := &r.Blocks[i], &r.States[i]
	if !r.zones.Middle(b) || s.Pinned {
		return 0
	}
	switch b.Kind {
	case wire.KindToolResult:
		if r.o.Prune.Mode == stage.Off || b.Has(wire.FlagError) || b.Has(wire.FlagMedia) || s.Trait == "" ||
			int(s.Unused) < *r.o.Prune.After || s.Edit != nil && s.Edit.Stage == stage.Prune {
			return 0
		}
		return r.Size(i) - content.StubLength
	case wire.KindToolUse:
		if !r.inputs(i) || s.Edit != nil && s.Edit.Stage == stage.Inputs {
			return 0
		}
		return r.Size(i) - content.StubLength
	case wire.KindThinking, wire.KindRedactedThinking:
		// bindThinking removes thinking that other edits invalidate. Thinking bound to its past
		// must not be removed otherwise.
		if r.rules.BindsThinking || !r.strips() || s.Edit != nil ||
			i >= r.run.answer || r.run.loop && i >= r.run.task || !r.removable(i) {
			return 0
		}
		return b.Span.Len()
	}
	return 0
}

// cut is the number of bytes saved by folding a whole block, or only the text that an edit
// replaced. Zero means not worth folding.
type cut struct{ all, part int }

// cut computes the savings of all blocks, ignoring savings below least, and reports whether there
// are any.
func (p *planning) cut(r *request, minRequests int) (some bool) {
	p.cuts = content.Zeroed(p.cuts, len(r.Blocks))
	for i := range r.Blocks {
		if r.Blocks[i].Span.Len() < minRequests && r.States[i].Edit == nil {
			continue // most blocks are short
		}
		c := cut{r.foldable(i), r.replaced(i)}
		if c.all < minRequests {
			c.all = 0
		}
		if c.part < minRequests {
			c.part = 0
		}
		if c != (cut{}) {
			p.cuts[i], some = c, true
		}
	}
	return some
}

// inputs reports whether a block is an unsigned call that wrote to a file.
func (r *request) inputs(i int) bool {
	s := &r.States[i]
	return (r.o.Planner.FoldInputs == nil || *r.o.Planner.FoldInputs) && s.Trait != "" &&
		!r.Blocks[i].Has(wire.FlagSigned) &&
		(s.Class == sessioncache.ClassEdit || s.Class == sessioncache.ClassWrite)
}

// replaced returns the bytes saved by folding only the text that a call replaced.
func (r *request) replaced(i int) int {
	s := &r.States[i]
	if r.Blocks[i].Kind != wire.KindToolUse || s.Edit != nil || !r.zones.Middle(&r.Blocks[i]) || !r.inputs(i) {
		return 0
	}
	// The file does not contain this text any more, so no later edit can quote it.
	return int(s.Replaced) - content.StubLength/2
}

// fold makes the edits of a plan, except where the stub saves too little. It returns the numbers of
// blocks and tokens folded.
func (r *request) fold(folds []planner.Fold) (blocks, tokens int) {
	var sum float64
	for _, x := range folds {
		i := x.Block
		switch b := &r.Blocks[i]; b.Kind {
		case wire.KindToolResult:
			value := content.WithText(r.View, b, r.stub(i, r.preview(i)))
			if len(value)+stage.MinGain > r.Size(i) {
				continue
			}
			r.set(i, stage.Prune, wire.OpReplace, value)
		case wire.KindToolUse:
			value := content.Fold(r.View.Bytes(b.Body), r.stubName(i), x.Part)
			if len(value)+stage.MinGain > r.Size(i) {
				continue
			}
			what := stage.Inputs
			if x.Part {
				what = stage.Replaced
			}
			r.set(i, what, wire.OpReplace, value)
		case wire.KindText:
			r.set(i, stage.Narration, wire.OpRemove, nil)
		default:
			r.set(i, stage.Thinking, wire.OpRemove, nil)
		}
		blocks++
		sum += x.Tokens
	}
	return blocks, int(sum)
}

// preview is the number of first lines that the stub of a result keeps.
func (r *request) preview(i int) int {
	if r.States[i].Class == sessioncache.ClassRead {
		return 0
	}
	return *r.o.Prune.Preview
}

// furtherRequests estimates the number of further requests.
func furtherRequests(s *sessioncache.Session, v *wire.View, l *sessioncache.Conversation) float64 {
	kind := sessioncache.RequestKind(v)
	// The remaining requests of the tenant's conversations of the same kind, if there are enough.
	if further, ok := s.ExpectedRemaining(kind, l); ok {
		return max(2, further/cautionOf(l))
	}
	// The session's usual length, if that exceeds the prior.
	usual := s.Usual(kind, l)
	if l != nil {
		usual -= float64(l.Requests)
	}
	return max(minRequests(l), usual/cautionOf(l))
}

// minRequests returns the prior for the number of further requests.
func minRequests(l *sessioncache.Conversation) float64 {
	further := 0.0
	if l != nil {
		further = furtherShare * float64(l.Requests)
	}
	return max(2, (furtherAtFirst+further)/cautionOf(l))
}

// The prior for a conversation with tools after n requests, below the recorded means for the sake
// of short conversations. Recorded ones had 77 further requests at n = 10, 55 at 50, 44 at 100.
const (
	furtherAtFirst = 25
	furtherShare   = 0.3
)

// plannerPast returns the history of costs of a conversation.
func plannerPast(l *sessioncache.Conversation) planner.Past {
	if l == nil {
		return planner.Past{Caution: 1}
	}
	return planner.Past{Requests: l.Requests, Spent: l.Spent, Staked: l.Staked, Removed: l.Removed, Caution: cautionOf(l)}
}

// cautionOf returns the ratio of actual to planned costs of recent folds in a conversation, at
// minRequests 1.
func cautionOf(l *sessioncache.Conversation) float64 {
	if l == nil {
		return 1
	}
	return max(1, l.Caution)
}

// plannerPrices returns the prices of a conversation. The price of a write depends on the lifetime
// of its cached prefix.
func plannerPrices(r *pricing.Rules, l *sessioncache.Conversation) planner.Prices {
	p := planner.Prices{Write: r.Write, Read: r.Read, MinTokens: r.MinTokens, Window: r.ContextWindow}
	if l != nil && r.LongTTL > 0 && l.TTL == r.LongTTL {
		p.Write = r.Write1h
	}
	return p
}

// liveEntries appends the ends of the cache entries that are certainly alive.
func liveEntries(ends []int, l *sessioncache.Conversation, ttl time.Duration, now time.Time) []int {
	if l == nil {
		return ends
	}
	if l.TTL != 0 {
		ttl = l.TTL
	}
	for _, e := range l.Ends {
		if now.Sub(e.At) < ttl-ttlMargin(ttl) {
			ends = append(ends, e.Blocks)
		}
	}
	return ends
}

// hasLapsed reports whether there may be no entry that ends before the first message block.
func hasLapsed(l *sessioncache.Conversation, ttl time.Duration, now time.Time) bool {
	if l == nil {
		return false
	}
	if l.TTL != 0 {
		ttl = l.TTL
	}
	// Reading a longer prefix does not refresh this entry; a request after its end writes it again.
	at, known := l.Ends.Marked(0)
	return !known || now.Sub(at) >= ttl-ttlMargin(ttl)
}

// calibratedNeed raises the need of a block by the number of expansions in its class.
func calibratedNeed(l *sessioncache.Conversation, c sessioncache.Class, need float64) float64 {
	if l == nil {
		return need
	}
	return min(1, need*float64(1+2*int(l.Expanded[c])))
}

// tokensLeftOut returns the number of tool results, from the first on, that the upstream clears by
// itself. Folding them gains nothing.
func tokensLeftOut(l *sessioncache.Conversation) int64 {
	if l == nil {
		return 0
	}
	return l.Cleared.ToolUses
}
