// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"crypto/sha256"
	"math"
	"slices"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Transaction is one request, from the decision about its edits to the end of its response. One
// goroutine at a time may call its methods.
type Transaction struct {
	// Prompt is the request to send.
	Prompt Prompt
	// Answerer answers the intercepted calls.
	Answerer Answerer
	// Policy is the policy in force.
	Policy Policy
	// Decision says why history was edited or left alone.
	Decision planner.Decision
	// Conversation is the number of the conversation within its session, -1 for a new one before Commit.
	Conversation int
	// Lesson is set by Commit.
	Lesson Lesson

	req          request
	before       before                     // the conversation before the transaction became part of it
	conversation *sessioncache.Conversation // set by Join or Commit
	account      account
	refusal      refusal
}

// Lesson holds the observations of a turn about its conversation.
type Lesson struct {
	// Break is the reason why the upstream's cache held less than expected, NoBreak if it did not.
	Break Break
	// BreakCost is the cost of the tokens that the cache lacked then, beyond that of reading them, in
	// uncached input tokens.
	BreakCost float32
	// Misses counts the signs of a missed fold.
	Misses missSigns
	// CutShort tells that the upstream has left a part of the prompt out.
	CutShort bool
}

// missSigns counts the signs in a turn.
type missSigns struct {
	// Expanded counts the blocks requested by the model.
	Expanded int32
	// Reread counts reads that show a folded text again. Agents reread files for other reasons,
	// too.
	Reread int32
	// Failed counts edits that did not find their text in a file with a folded text.
	Failed int32
}

// Sum returns the number of all signs.
func (g *missSigns) Sum() int { return int(g.Expanded + g.Reread + g.Failed) }

// Claim makes new edits durable and visible to other processes before they are forwarded. Call it
// before sending the request. It returns false if another process has forwarded some of the blocks
// in another form; then the request needs a new decision.
func (x *Transaction) Claim(ctx context.Context, store *sessioncache.Store) bool {
	r := &x.req
	if !x.Prompt.Edited || r.off.Has(wire.EditText) || r.View.Conversation.Partial || !x.adds() {
		return true
	}
	return store.Claim(ctx, r.session, r.match, r.View, r.States, func(l *sessioncache.Conversation) {
		l.Observed, l.Diverged = false, true
		l.Model, l.Kind = r.View.Model, sessioncache.RequestKind(r.View)
		l.Expand, l.Order = r.offer.keeps(l.Expand), r.sentOrder()
	})
}

// adds reports whether a request contains edits that its conversation has not committed to.
func (x *Transaction) adds() bool {
	r, l := &x.req, x.req.match.Conversation
	r.session.Lock()
	defer r.session.Unlock()
	if l == nil && r.offer.expand == expandDeclared {
		return true
	}
	for _, at := range r.entries {
		i, s := int(at), &r.States[at]
		if s.Edit == nil && s.Inserted == nil {
			continue
		}
		if l == nil || i >= min(r.match.Common, len(l.States)) || l.States[i].Edit != s.Edit ||
			l.States[i].Inserted != s.Inserted {
			return true
		}
	}
	return false
}

// Holdout reports whether the conversation belongs to the control group, see [Options.Holdout].
func (x *Transaction) Holdout() bool { return x.req.p != nil && x.req.o == &x.req.p.observed }

// OffersTools reports whether the model is offered any tool, including tools retained by the
// provider.
func (x *Transaction) OffersTools() bool {
	if v := x.req.View; v.OffersTools() || !v.InheritsTools() {
		return v.OffersTools()
	}
	l := x.req.match.Conversation
	// The start of a conversation that began elsewhere is unknown: assume tools.
	return l == nil || l.Partial || l.Kind>>16 > 0
}

// Summarizes reports whether the request asks for a summary of the conversation.
func (x *Transaction) Summarizes() bool { return x.req.View != nil && content.Compacts(x.req.View) }

// Continues returns the number of the conversation that the request continues, or false for a new
// one.
func (x *Transaction) Continues() (conversation int, ok bool) {
	if x.req.match.Conversation == nil {
		return 0, false
	}
	return x.req.match.Conversation.ID(), true
}

// Warm reports whether the upstream may still have the conversation's prefix in its cache.
func (x *Transaction) Warm() bool { return x.req.match.Conversation != nil && !x.req.cached.cold }

// Start is the start of the request, by the caller's clock.
func (x *Transaction) Start() time.Time { return x.req.start }

// WritesEntry reports whether the request writes a cache entry at an added marker amid the history. Without its whole
// history it would not.
func (x *Transaction) WritesEntry() bool {
	stake, l := x.req.change.stake, x.req.match.Conversation
	if stake == 0 || x.Prompt.Markers == 0 || l == nil {
		return false
	}
	x.req.session.Lock()
	defer x.req.session.Unlock()
	return x.lapsed(l, stake)
}

// lapsed reports whether there may be no cache entry that ends at a block count. Reading a longer prefix does not refresh
// an entry: a request with its marker writes it again once it has expired.
func (x *Transaction) lapsed(l *sessioncache.Conversation, blocks int) bool {
	at, known := l.Ends.Marked(blocks)
	return !known || x.req.start.Sub(at) >= x.req.rules.Lifetime(l.TTL > x.req.rules.TTL)
}

// Rules returns the cache rules in force for the request.
func (x *Transaction) Rules() pricing.Rules { return x.req.rules }

// History returns the conversation in the request, block by block, with the stored state of each
// block. It is valid until Commit.
func (x *Transaction) History() *content.History { return &x.req.History }

// Loops reports whether the request continues a run of tool calls.
func (x *Transaction) Loops() bool { return x.req.run.loop }

// charsPerToken is the approximate number of bytes per token in tools and system prompts.
const charsPerToken = 4

// SharedPrefix returns the hash of the prefix that a new conversation shares with others, tools and system
// prompt, and its lifetime in the cache. It returns false if the provider does not cache that
// prefix separately.
func (x *Transaction) SharedPrefix() (prefix wire.Hash, lifetime time.Duration, ok bool) {
	v, rules := x.req.View, &x.req.rules
	// Sub-agents that start together share the prefix; continued conversations have longer ones.
	if x.req.match.Conversation != nil || v.Conversation.Partial || !v.Conversation.Thread.Empty() || !v.OffersTools() ||
		rules.TTL == 0 || rules.Read >= rules.Write {
		return prefix, 0, false
	}
	end := v.System
	// System messages at the start belong to the prefix.
	for end < len(v.Blocks) && v.Blocks[end].Role == wire.RoleSystem {
		end++
	}
	switch rules.Regime {
	case pricing.Markers, pricing.Breakpoints: // entries end at markers
		for end > 0 && !x.marked(end-1) {
			end--
		}
	case pricing.Automatic:
		if rules.Provider == "gemini" || rules.Provider == "vertex" { // these providers promise no entry
			return prefix, 0, false
		}
	default:
		return prefix, 0, false
	}
	h, size := sha256.New(), 0
	if rules.Regime != pricing.Markers {
		_, _ = h.Write([]byte(v.Session)) // prompt_cache_key: a cache does not share entries between keys
	}
	for i := range v.Blocks[:end] {
		_, _ = h.Write(v.Blocks[i].Hash[:])
		size += v.Blocks[i].Span.Len()
	}
	// The provider does not cache a prefix below its minimum.
	if size/charsPerToken < max(rules.MinTokens, 1) {
		return prefix, 0, false
	}
	copy(prefix[:], h.Sum(nil))
	return prefix, rules.TTL, true
}

// marked reports whether a block is sent with a marker.
func (x *Transaction) marked(i int) bool {
	return !x.req.View.Blocks[i].Marker.Empty() ||
		slices.ContainsFunc(x.req.marking.added, func(e wire.Edit) bool { return e.Block == i })
}

// Close releases the transaction after Commit. No call of the model can be answered any more.
func (x *Transaction) Close() {
	if x.conversation == nil {
		return
	}
	editSlices.Recycle(x.Prompt.edits)
	x.Prompt.edits = nil
	x.req.session.Lock()
	defer x.req.session.Unlock()
	x.req.session.Leave(x.conversation, x.req.View)
}

// Join makes the request part of the conversation as soon as the model's output is complete.
// [Transaction.Commit] must follow.
func (x *Transaction) Join(t *wire.Turn) {
	x.req.session.Lock()
	defer x.req.session.Unlock()
	// The next request may arrive before the usage, and must find this one.
	x.join(t)
}

// before is the state of the conversation before the transaction became part of it.
type before struct {
	last      wire.Usage
	continued bool
	diverged  bool          // earlier requests differed from the client's own bytes at the client's own times
	departed  bool          // the computed edits of earlier requests would have changed them
	requests  int32         // of the conversation, this one included
	previous  previousTurn  // the request that this one continues
	left      int64         // tokens that the last request left in the cache
	cause     Break         // the reason if they are missing
	pause     time.Duration // since the cached prefix was last used
	cleared   wire.Cleared
}

func (x *Transaction) join(t *wire.Turn) {
	if x.conversation != nil {
		return
	}
	if x.refusal.accepted {
		x.freeze()
	}
	x.readBefore()
	v, prev := x.req.View, x.req.match.Conversation
	// A client that lost the connection sends the last request again. Its references must not count
	// twice.
	again := prev != nil && !prev.Claimed() && x.req.match.Common == prev.Len() && prev.Len() == len(x.req.States)
	if !again {
		countReferences(x.req.States, t)
	}
	tools := x.req.definitions()
	l := x.req.session.Commit(x.req.match, v, x.req.States)
	x.conversation, l.Tools = l, tools
	if !l.Beyond {
		l.SetEdited(x.req.entries)
	}
	l.Refused |= x.refusal.refused
	if l.Observed != (x.Policy == Observe) {
		// The account of the edits that were computed, or sent, ends with the change.
		l.Observed, l.Settled, l.Staked, l.Removed, l.Ends = x.Policy == Observe, 0, 0, 0, nil
	}
	l.Departed = x.Policy == Observe && (x.req.computed || x.before.departed)
	l.Model = v.Model
	if !l.Beyond {
		l.Kind, l.Order = sessioncache.RequestKind(v), x.req.sentOrder()
	}
	// Later requests find the conversation by the ids of its responses.
	if l.Reply = (wire.Hash{}); !v.Conversation.Thread.Empty() || v.Conversation.Unthreaded || v.Traits().KeepsAnswers &&
		!v.Conversation.Stateless {
		l.Reply = wire.AnswerID(t.ID)
	}
	if !v.Conversation.Partial && l.First.IsZero() {
		if l.First = v.FirstAnswer(); l.First.IsZero() {
			l.First = v.AnsweredBy(t)
		}
	}
	x.Conversation = l.ID()
	if !l.Beyond {
		l.Less = max(x.Prompt.OriginalTokens-x.Prompt.SentTokens, 0)
		if x.Policy == Observe {
			l.Less = 0
		}
	}
	l.Diverged = l.Diverged || x.Prompt.Edited || x.before.diverged
	l.Expand = x.req.offer.keeps(prev != nil && prev.Expand)
	l.Said, l.Unsaid, l.Copied = x.Answerer.said, false, false
	// A block that the model has asked for counts as used, stays whole from now on, and raises the
	// need of its class.
	for _, i := range x.Answerer.asked {
		s := &x.req.States[i]
		s.Unused, s.Pinned = 0, true
		if n := &l.Expanded[s.Class]; *n < 1<<15 {
			*n++
		}
	}
	x.Lesson.Misses = x.req.misses.Fresh
	x.Lesson.Misses.Expanded = int32(len(x.Answerer.asked))
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

// readBefore notes the state of the conversation, as long as the transaction is not part of it.
func (x *Transaction) readBefore() {
	r, b, l := &x.req, &x.before, x.req.match.Conversation
	if x.conversation != nil || l == nil {
		return
	}
	*b = before{
		last: l.Last, continued: r.match.Common == l.Len(), cleared: l.Cleared, departed: l.Departed,
		// Edits change the bytes; pings keep the cache warm longer.
		diverged: l.Diverged || !l.Warmed.IsZero(),
		previous: previousTurn{Prefix: l.PromptPrefix, Ago: r.start.Sub(l.Started), Common: r.match.Common},
		pause:    r.start.Sub(l.LastUse()),
	}
	if !sameSystem(l, r.View) {
		b.previous.Common = 0
	}
	if r.View.Conversation.Partial {
		return
	}
	b.left = l.Last.Prompt()
	if l.Last.Read+l.Last.Write5m+l.Last.Write1h > 0 {
		b.left -= l.Last.Uncached // the tokens after the last marker
	}
	switch v := r.View; {
	case r.cached.cold:
		b.cause = BreakExpired
	case l.Model != v.Model:
		b.cause = BreakModel
	case r.newTools():
		b.cause = BreakTools
	case !sameSystem(l, v):
		b.cause = BreakSystem
	case r.change.deep && x.Prompt.Edited && r.change.broken <= r.match.Common:
		b.cause = BreakEdit
	case r.match.Common < l.Len():
		b.cause = BreakMessages
	default:
		b.cause = BreakUnknown
	}
}

// Commit makes the request and its response part of the conversation, unless [Transaction.Join] has,
// and adds their cost. Call it once, and only after a complete response.
func (x *Transaction) Commit(t *wire.Turn, now time.Time) {
	x.req.session.Lock()
	defer x.req.session.Unlock()
	x.join(t)
	l := x.conversation
	found, usage := t.Usage, t.LastUsage()
	if x.Answerer.said != nil {
		found, usage = x.Answerer.first, x.Answerer.first
	}
	// The usage and the request, beside those of the last request, tell why the cache held less than
	// the conversation's last request left there.
	b, cut := &x.before, x.cutByServer(t)
	if found.Prompt() > 0 && b.left >= int64(max(x.req.rules.MinTokens, 1)) &&
		float64(found.Read) < minReadShare*float64(b.left) {
		x.Lesson.Break = b.cause
		// A cut by the provider takes precedence over these reasons.
		if cut && (b.cause == BreakEdit || b.cause == BreakMessages || b.cause == BreakUnknown) {
			x.Lesson.Break = BreakServerEdit
		}
		lacked := min(b.left, found.Prompt()) - found.Read
		x.Lesson.BreakCost = float32(x.req.rules.Cost(found) - x.req.rules.Cost(found.Reading(lacked)))
	}
	if x.req.rules.AssumedFrom != "" && found.Reported {
		x.observe(found)
	}
	x.computeBill(t)
	c, bill := &l.Cost, &x.account.bill
	c.Add(bill.Cost, bill.ClientCost, bill.Dollars, bill.ClientDollars)
	c.WouldSave, c.WouldSaveUSD = c.WouldSave+bill.WouldSave, c.WouldSaveUSD+bill.WouldSaveDollars
	if int32(l.Requests) != x.before.requests { // the next request arrived before the usage
		l.Total = l.Total.Add(t.Usage)
		return
	}
	if !l.Beyond {
		l.PromptPrefix = x.account.prefix
	}
	if t.Usage.Prompt() == 0 {
		return
	}
	if x.Lesson.Break != NoBreak {
		l.Broke(string(x.Lesson.Break))
	}
	x.Lesson.CutShort = x.req.rules.Regime == pricing.KV && x.cutShort(usage)
	// After a cut by the provider, the fold is not the reason for the writes.
	if x.Decision.Folded > 0 && !cut {
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
	if b.continued && !x.req.change.deep && !cut && b.last.Prompt() > 0 {
		x.req.session.Calibration.Learn(&x.req.sizing.grown, usage.Prompt()-b.last.Prompt())
	}
}

// cutShort reports whether a local server counts less than half of the tokens that a prompt must
// have, and no more than for the shorter prompt before: Ollama silently drops the oldest messages of
// a prompt longer than num_ctx.
func (x *Transaction) cutShort(u wire.Usage) bool {
	b := &x.before
	if !b.continued || x.req.change.deep || b.last.Prompt() == 0 || u.Prompt() > b.last.Prompt() {
		return false
	}
	var measured sessioncache.Calibration // not the session's own, which was learned from cut prompts
	return 2*u.Prompt() < int64(measured.Tokens(&x.req.sizing.sent))
}

// spend adds the cost of the request and updates the upstream's cache entries. If edits are only
// computed, these are the entries that the edits would have made.
func (x *Transaction) spend(l *sessioncache.Conversation, t *wire.Turn) {
	for _, u := range x.calls(t) {
		l.Spent += x.req.rules.Cost(u)
	}
	if l.Beyond { // the provider keeps the history and manages its cache
		l.Ends.Mark(l.Len(), x.req.start)
		return
	}
	d := &x.Decision
	// Each request pays back the folds by the reads that they save. Restored text is written besides.
	prices := plannerPrices(&x.req.rules, l)
	l.Staked -= float64(x.Prompt.OriginalTokens-x.Prompt.SentTokens) * prices.Read
	l.Staked += x.req.restored * (prices.Write - prices.Read)
	if d.Folded > 0 {
		l.Staked += float64(d.Rewritten) * (prices.Write - prices.Read)
		l.Settled = x.req.change.settled
		l.Removed += float64(d.Removed)
		l.Ends.Cut(x.req.change.broken)
	}
	if x.req.cached.replaced {
		l.Ends.Cut(0) // the entries belong to the prefix before
	}
	written := func(blocks int) bool {
		return x.Lesson.Break != NoBreak || d.Folded > 0 && x.req.marking.at == blocks || x.lapsed(l, blocks)
	}
	if stake := x.req.change.stake; stake > 0 && written(stake) {
		l.Ends.Mark(stake, x.req.start)
	}
	// The cache finds the entry before the messages if it finds no longer one. OpenAI's newer models have none: they
	// write at the latest message.
	if x.req.rules.Regime != pricing.Breakpoints && written(0) {
		l.Ends.Mark(0, x.req.start)
	}
	if x.req.match.Common > 0 && x.req.match.Common <= x.req.change.broken && !x.req.cached.replaced {
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

// Break is the reason why the upstream's cache held less of a conversation than expected.
type Break string

// The reasons, in order of precedence. Of an own edit and changed messages, the one earlier in the
// prompt counts.
const (
	// NoBreak: the cache held the expected prefix.
	NoBreak Break = ""
	// BreakExpired: the lifetime has passed since the last request.
	BreakExpired Break = "expired"
	// BreakModel: the client requested another model.
	BreakModel Break = "model"
	// BreakTools: the client changed its tool definitions.
	BreakTools Break = "tools"
	// BreakSystem: the client changed the system prompt.
	BreakSystem Break = "system"
	// BreakMessages: the client rewrote earlier messages.
	BreakMessages Break = "messages"
	// BreakServerEdit: the provider cleared other parts of the history than before, on the client's
	// order, or summarized it.
	BreakServerEdit Break = "server_edit"
	// BreakEdit: an edit of the pipeline changed blocks that had been sent.
	BreakEdit Break = "edit"
	// BreakUnknown: no reason visible from here.
	BreakUnknown Break = "unknown"
)

// minReadShare is the share of the last prompt that must be read from the cache for it to count as whole.
// Providers report usage in steps, and the last block may not have been cached.
const minReadShare = 0.7

// observe notes what a usage tells of the cache of a model whose rules are assumed.
func (x *Transaction) observe(u wire.Usage) {
	b := &x.before
	s := pricing.Sighting{Cached: u.Read + u.Write5m + u.Write1h}
	// A long lifetime that was asked for says nothing of the usual one.
	if prev := x.req.match.Conversation; b.continued && prev != nil && prev.TTL <= x.req.rules.TTL &&
		(b.cause == BreakUnknown || b.cause == BreakExpired) {
		s.Left, s.Found, s.Pause = b.left, u.Read, b.pause
	}
	x.req.rules.Observe(s)
}

// cutByServer reports whether the provider cut the history differently than in the last request.
// The cache cannot hold the blocks after such a cut.
func (x *Transaction) cutByServer(t *wire.Turn) bool {
	return t.Compacted || t.Cleared != (wire.Cleared{}) && t.Cleared != x.before.cleared
}

// Vanished reports, after Commit, that the upstream's cache was lost for no visible reason. The
// server was restarted, or its model was unloaded.
func (x *Transaction) Vanished(t *wire.Turn) bool {
	return x.Lesson.Break == BreakUnknown && x.req.rules.Regime == pricing.KV && t.Usage.Read == 0
}

func sameBlocks(a, b []wire.Block) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Hash != b[i].Hash {
			return false
		}
	}
	return true
}

const (
	// overrun is the share by which a fold may exceed its planned cost before the planner becomes
	// more careful in the conversation.
	overrun = 0.25
	// maxCaution limits the caution.
	maxCaution = 8
)

// learnCost compares the cost of a fold with the plan. After a fold that cost more, the planner
// expects fewer further requests and more tokens to write again, until folds cost as planned.
func (x *Transaction) learnCost(l *sessioncache.Conversation, u wire.Usage) {
	d := &x.Decision
	if d.Rewritten == 0 || x.Policy == Observe || !u.Reported {
		return
	}
	planned := float64(d.Rewritten + x.req.session.Calibration.Tokens(&x.req.sizing.grown))
	dearer := float64(u.Prompt()-u.Read)/max(planned, 1) - 1
	switch {
	case dearer > overrun:
		l.Caution = min(max(l.Caution, 1)*(1+dearer), maxCaution)
	case l.Caution > 1:
		l.Caution = max(1, l.Caution/2)
	}
}
