// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"math"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Close releases the exchange after Commit.
func (x *Exchange) Close() {
	if x.lineage == nil {
		return
	}
	x.req.session.Lock()
	defer x.req.session.Unlock()
	x.req.session.Leave(x.lineage, x.req.View)
}

// Join makes the request part of the conversation as soon as the model's output is complete.
// [Exchange.Commit] must follow.
func (x *Exchange) Join(t *wire.Turn) {
	x.req.session.Lock()
	defer x.req.session.Unlock()
	// The next request may arrive before the usage, and must find this one.
	x.join(t)
}

// before is the state of the conversation before the exchange became part of it.
type before struct {
	last      wire.Usage
	continued bool
	diverged  bool
	departed  bool
	requests  int32 // of the conversation, this one included
	previous  previousTurn
	left      int64         // tokens that the last request left in the cache
	cause     Break         // the reason if they are missing
	pause     time.Duration // since the cached prefix was last used
	cleared   wire.Cleared
}

func (x *Exchange) join(t *wire.Turn) {
	if x.lineage != nil {
		return
	}
	x.freeze()
	prev := x.req.match.Lineage
	x.before = before{diverged: x.diverged(), departed: x.departed(), previous: x.previous()}
	if prev != nil {
		x.before.cleared = prev.Cleared
		x.before.last, x.before.continued = prev.Last, x.req.match.Common == prev.Len()
		x.before.left, x.before.cause = x.left(prev)
		x.before.pause = x.req.start.Sub(prev.LastUse())
	}
	// A client that lost the connection sends the request again. Its references must not count
	// twice.
	if !x.answered(prev) {
		countReferences(x.req.States, t)
	}
	tools := definitions(x.req.View, prev)
	l := x.req.session.Commit(x.req.match, x.req.View, x.req.States)
	x.lineage, l.Tools = l, tools
	l.Refused |= x.refusal.refused
	if l.Observed != (x.Policy == Observe) {
		// The account of the edits that were computed, or sent, ends with the change.
		l.Observed, l.Settled, l.Staked, l.Removed, l.Ends = x.Policy == Observe, 0, 0, 0, nil
	}
	l.Departed = x.Policy == Observe && (x.req.computed || x.before.departed)
	l.Model = x.req.View.Model
	if !l.Beyond {
		l.Kind = sessioncache.RequestKind(x.req.View)
	}
	noteAnswers(l, x.req.View, t)
	x.Lineage = l.ID()
	if !l.Beyond {
		l.Less = max(x.Prompt.OriginalTokens-x.Prompt.SentTokens, 0)
		if x.Policy == Observe {
			l.Less = 0
		}
	}
	l.Diverged = l.Diverged || x.Prompt.Edited || x.before.diverged
	l.Expand = x.req.offer.keeps(prev != nil && prev.Expand)
	l.Said, l.Unsaid, l.Copied = x.Interceptor.said, false, false
	x.Interceptor.learnExpansions(l)
	x.Lesson.Regret = x.req.regretted.Fresh
	x.Lesson.Regret.Expanded = len(x.Interceptor.asked)
	if x.Decision.Epoch != "" {
		l.Decision = x.Decision.Update(l.Decision)
	}
	if x.req.session.CountRequest(l); l.Requests == 1 {
		l.Created = x.req.start
	}
	if ttl := x.req.rules.TTL; ttl > 0 && !l.Started.IsZero() && x.req.start.Sub(l.Started) > ttl {
		l.Pauses++
	}
	l.Started = x.req.start
	l.OriginalTokens += int64(x.Prompt.OriginalTokens)
	l.SentTokens += int64(x.Prompt.SentTokens)
	x.before.requests = int32(l.Requests)
}

// answered reports whether the conversation's last request was the same and got a response.
func (x *Exchange) answered(prev *sessioncache.Lineage) bool {
	return prev != nil && !prev.Claimed() && x.req.match.Common == prev.Len() && prev.Len() == len(x.req.States)
}

// Commit makes the request and its response part of the conversation, unless [Exchange.Join] has,
// and adds their cost. Call it once, and only after a complete response.
func (x *Exchange) Commit(t *wire.Turn, now time.Time) {
	x.req.session.Lock()
	defer x.req.session.Unlock()
	x.join(t)
	l := x.lineage
	found, usage := t.Usage, t.Held()
	if x.Interceptor.said != nil {
		found, usage = x.Interceptor.first, x.Interceptor.first
	}
	x.Lesson.Break = x.attribute(found, t)
	x.observe(found)
	x.settleBill(t)
	c, bill := &l.Cost, &x.account.bill
	c.Add(bill.Cost, bill.ClientCost, bill.Dollars, bill.ClientDollars)
	c.WouldSave, c.WouldSaveUSD = c.WouldSave+bill.WouldSave, c.WouldSaveUSD+bill.WouldSaveDollars
	if int32(l.Requests) != x.before.requests { // the next request arrived before the usage
		l.Total = l.Total.Add(t.Usage)
		return
	}
	if !l.Beyond {
		l.Front = x.account.front
	}
	if t.Usage.Prompt() == 0 {
		return
	}
	if x.Lesson.Break != NoBreak {
		l.Broke(string(x.Lesson.Break))
	}
	x.Lesson.CutShort = x.cutShort(usage)
	cut := x.cutByServer(t)
	// After a cut by the provider, the fold is not the reason for the writes.
	if !cut {
		x.learnCost(l, usage)
	}
	l.Cleared = t.Cleared
	l.Last, l.Total = usage, l.Total.Add(t.Usage)
	x.spend(l, t)
	switch {
	case t.Usage.Write1h > 0:
		l.TTL = x.req.rules.Lifetime(true)
	case t.Usage.Write5m > 0:
		l.TTL = x.req.rules.Lifetime(false)
	}
	if x.Policy == Observe || x.req.View.Conversation.Partial {
		l.Estimate = 0 // the estimate does not cover the whole sent prompt
		if x.Policy == Observe && !x.req.View.Conversation.Partial {
			l.Estimate = x.req.sizing.original
		}
		return
	}
	l.Estimate = x.req.sizing.estimate
	// With no other change, the growth of the prompt is the size of the new blocks.
	if b := &x.before; b.continued && !x.req.change.deep && !cut && b.last.Prompt() > 0 {
		x.req.session.Calibration.Learn(&x.req.sizing.grown, usage.Prompt()-b.last.Prompt())
	}
}

// cutShort reports whether a local server counts less than half of the tokens that a prompt must
// have, and no more than for the shorter prompt before: Ollama leaves the oldest messages out, and
// tells nobody, where a prompt is longer than num_ctx.
func (x *Exchange) cutShort(u wire.Usage) bool {
	b := &x.before
	if x.req.rules.Regime != pricing.KV || !b.continued || x.req.change.deep || b.last.Prompt() == 0 || u.Prompt() > b.last.Prompt() {
		return false
	}
	var measured sessioncache.Calibration // not the session's own, which was learned from cut prompts
	return 2*u.Prompt() < int64(measured.Tokens(&x.req.sizing.sent))
}

// noteAnswers stores the ids of responses by which later requests find the conversation.
func noteAnswers(l *sessioncache.Lineage, v *wire.View, t *wire.Turn) {
	if l.Reply = (wire.Hash{}); !v.Conversation.Thread.Empty() || v.Conversation.Unthreaded || v.Traits().KeepsAnswers && !v.Conversation.Stateless {
		l.Reply = wire.AnswerID(t.ID)
	}
	if v.Conversation.Partial || !l.First.IsZero() {
		return
	}
	if l.First = v.FirstAnswer(); l.First.IsZero() {
		l.First = v.AnsweredBy(t)
	}
}

// spend adds the cost of the request and updates the upstream's cache entries. If edits are only
// computed, these are the entries that the edits would have made.
func (x *Exchange) spend(l *sessioncache.Lineage, t *wire.Turn) {
	for _, u := range x.calls(t) {
		l.Spent += x.req.rules.Cost(u)
	}
	if l.Beyond { // the provider keeps the history and manages its cache
		l.Ends.Mark(l.Len(), x.req.start)
		return
	}
	d := &x.Decision
	// Each request pays back the folds by the reads that they save.
	l.Staked -= float64(x.Prompt.OriginalTokens-x.Prompt.SentTokens) * x.req.rules.Read
	if d.Folded > 0 {
		l.Staked += float64(d.Rewritten) * (x.req.rules.Write - x.req.rules.Read)
		l.Settled = x.req.change.settled
		l.Removed += float64(d.Removed)
		l.Ends.Cut(x.req.change.broken)
	}
	if x.req.change.stake > 0 {
		l.Ends.Mark(x.req.change.stake, x.req.start)
	}
	// The cache finds the entry before the messages if it finds no longer one. If that entry is
	// gone, this request writes it again.
	if at, known := l.Ends.Marked(0); !known || x.Lesson.Break != NoBreak || d.Folded > 0 && x.req.marking.at == 0 || x.req.start.Sub(at) >= x.req.rules.Lifetime(l.TTL > x.req.rules.TTL) {
		l.Ends.Mark(0, x.req.start)
	}
	if x.req.match.Common > 0 && x.req.match.Common <= x.req.change.broken {
		l.Ends.Mark(x.req.match.Common, x.req.start) // found, and so refreshed
	}
	l.Ends.Mark(len(x.req.States), x.req.start)
}

// countReferences increments the K counter of each block that the response does not refer to, and
// resets the others.
func countReferences(states []sessioncache.BlockState, t *wire.Turn) {
	var m *content.Mention
	for i := range states {
		s := &states[i]
		if s.Trait == "" {
			continue
		}
		if m == nil {
			m = content.NewMention(t)
		}
		if m.Of(s.Trait) {
			s.Unused, s.Used = 0, s.Used+min(1, math.MaxUint16-s.Used)
		} else if s.Unused < 1<<15 {
			s.Unused++
		}
	}
	if m != nil {
		m.Release()
	}
}
