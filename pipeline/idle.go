// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Idle describes an idle conversation with a cache that may be worth keeping.
type Idle struct {
	// Conversation is the number of the conversation in its session.
	Conversation int
	// Rules are the cache rules of its model.
	Rules pricing.Rules
	// Lifetime is the lifetime of its cached prefix.
	Lifetime time.Duration
	// Prompt is the length of the prompt, in tokens.
	Prompt int64
	// Tool reports whether the response asks for tool calls, Question whether it ends in a
	// question.
	Tool, Question bool
	// Prompts is the number of human prompts, Pauses the number of pauses longer than the lifetime.
	Prompts, Pauses int
	// Cold is the planner's extra gain from a cold cache, which makes folds free, in uncached input
	// tokens.
	Cold float64
	// Spent is the cost of the conversation. Saved is its saving over the client's own bytes. Kept
	// is the net saving of its pings.
	Spent, Saved, Kept float64
}

// Committed returns the number of the conversation that Commit extended, or false without a Commit.
func (x *Transaction) Committed() (int, bool) {
	if x.conversation == nil {
		return 0, false
	}
	return x.conversation.ID(), true
}

// Replaced returns the conversations of the session that this new one replaces, because the client
// summarized its history or started over. Sub-agents replace none: they have tools of their own.
func (x *Transaction) Replaced() (conversations []int) {
	if x.conversation == nil || x.req.match.Conversation != nil || !x.req.View.OffersTools() {
		return nil
	}
	x.req.session.Lock()
	defer x.req.session.Unlock()
	return x.req.session.SameTools(x.conversation)
}

// cold returns the planner's extra gain from a cold cache. The session is locked.
func (x *Transaction) cold(l *sessioncache.Conversation, tool bool) float64 {
	if x.Policy == Observe || x.Policy == Eager || x.req.off.Has(wire.EditText) || x.req.orders.given.Cuts() {
		return 0
	}
	// The valuation works on a copy: the transaction stays as it was sent.
	r := x.req
	r.match.Conversation, r.run.loop = l, tool
	q := newPlanning()
	defer q.release()
	if !q.cut(&r, content.MinFold) {
		return 0
	}
	q.in.Moment = planner.Moment{
		Epoch: planner.NoEpoch, Loop: tool, Bound: r.binds, Begun: true,
		TooManyMisses: r.misses.TooMuch(),
	}
	q.in.Further = furtherRequests(x.req.session, x.req.View, l)
	q.gather(&r)
	q.in.Warm = 0
	cold := planner.Gain(&q.in, &q.scratch)
	q.in.Warm = len(r.Blocks)
	return max(0, cold-planner.Gain(&q.in, &q.scratch))
}

// Idle describes the conversation after Commit. It returns false if keeping the cache certainly
// gains nothing.
func (x *Transaction) Idle(t *wire.Turn) (Idle, bool) {
	// Side requests and summaries have no next request. Only caches with markers are refreshed by a
	// request that reads them.
	if x.conversation == nil || x.req.rules.Regime != pricing.Markers || !x.req.View.OffersTools() ||
		content.Compacts(x.req.View) {
		return Idle{}, false
	}
	x.req.session.Lock()
	defer x.req.session.Unlock()
	l := x.conversation
	// Sub-agents and conversations that never read from the cache gain nothing. A ping of a request
	// that the provider answered with a summary would cause another summary.
	if l.Requests < 2 || l.Total.Read == 0 || t.Usage.Prompt() == 0 || t.Compacted || !x.req.session.Main(l) {
		return Idle{}, false
	}
	long := content.LongMarker(x.req.View)
	lifetime := l.TTL
	if lifetime == 0 {
		lifetime = x.req.rules.Lifetime(long)
	}
	prompts := 0
	if n := len(l.States); n > 0 {
		prompts = int(l.States[n-1].Task)
	}
	tool := len(t.Calls) > 0
	return Idle{
		Cold:         x.cold(l, tool),
		Conversation: l.ID(), Rules: x.req.rules, Lifetime: lifetime,
		Prompt: t.Usage.Prompt(), Tool: tool, Question: asks(t.Text),
		Prompts: prompts, Pauses: l.Pauses, Spent: l.Spent, Saved: l.Cost.ClientUnits - l.Cost.Units, Kept: l.Kept,
	}, true
}

// asks reports whether a text ends in a question.
func asks(text string) bool {
	const end = 200
	return strings.Contains(text[max(0, len(text)-end):], "?")
}

// Kept adds the net saving of the pings before this request.
func (x *Transaction) Kept(net float64) {
	x.req.session.Lock()
	defer x.req.session.Unlock()
	if x.conversation != nil {
		x.conversation.Kept += net
	}
}

// Reading a cached token is free on a local server, but a fold makes the client wait. So hardly any
// fold pays before a request. After a response, the server reads the folded history in the
// background. The ledger changes only if the server has finished before the next request.

const (
	// minIdle is the minimum share of the prompt that an idle fold must save, minIdleTokens the
	// minimum in tokens.
	minIdle       = 0.002
	minIdleTokens = 100
	// minIdleFold is the minimum saving of a block in bytes. It is small because the server reads
	// the blocks after the fold anyway.
	minIdleFold = 150
)

// Background is a fold of an idle conversation, to be read by the upstream before the next request.
type Background struct {
	// Body is the last request, folded, in the client's format.
	Body []byte
	// Blocks is the number of folded blocks, and Removed their saving. Process is the number of
	// tokens that the upstream must read. Both are estimated tokens.
	Blocks, Removed, Process int

	x        *Transaction
	folds    map[int]*sessioncache.Edit
	texts    []Block
	prefix   int // blocks before the first fold
	hot      int
	estimate int
	requests int
}

// Background plans a fold between requests; call it after Commit. It returns nil if no block is
// worth folding, or if a fold is pointless under the upstream's cache rules. Process is at most
// limit, 0 for no limit.
func (x *Transaction) Background(t *wire.Turn, limit int) *Background {
	l := x.conversation
	// Only caches of the regime KV read a prefix for free.
	if l == nil || x.Policy != CostAware || x.req.off.Has(wire.EditText) || x.req.rules.Regime != pricing.KV ||
		x.req.View.Conversation.Partial ||
		!x.req.View.OffersTools() || content.Compacts(x.req.View) || x.req.orders.given.Cuts() {
		return nil
	}
	x.req.session.Lock()
	defer x.req.session.Unlock()
	if !x.current() {
		return nil
	}
	// The plan works on a copy: the transaction stays as it was sent.
	r := x.req
	r.match.Conversation, r.prompt = l, new(Prompt)
	r.States, r.ledger.fresh, r.ledger.broken = slices.Clone(x.req.States), nil, math.MaxInt32
	r.Texts = nil
	r.cached.forwarded, r.Known, r.cached.cold, r.run.loop = len(r.Blocks), len(r.Blocks), false, len(t.Calls) > 0
	q := newPlanning()
	defer q.release()
	q.in.Moment = planner.Moment{
		Epoch: planner.NoEpoch, Loop: r.run.loop, Bound: r.binds, Begun: true,
		TooManyMisses: r.misses.TooMuch(),
	}
	q.in.Further = minRequests(l) // the next pause is near, so a late fold costs little
	q.cut(&r, minIdleFold)
	q.gather(&r)
	q.needless(&r, newEstimator(&x.req.session.Calibration, l))
	folds, from, process := planner.Idle(&q.in, &q.scratch, limit)
	if len(folds) == 0 {
		return nil
	}
	b := &Background{x: x, prefix: from, hot: r.hot(), Process: process, requests: l.Requests}
	b.Blocks, b.Removed = r.fold(folds)
	r.compress() // the server reads the blocks after the fold anyway
	if len(r.ledger.fresh) == 0 || b.Removed < minIdleTokens || float64(b.Removed) < minIdle*q.in.Total {
		return nil
	}
	r.estimate()
	b.estimate = r.sizing.estimate
	body, err := x.req.View.Splice(r.edits(nil))
	if err != nil {
		return nil
	}
	b.Body = body
	b.folds = make(map[int]*sessioncache.Edit, len(r.ledger.fresh))
	for i := range r.ledger.fresh {
		b.folds[i] = r.States[i].Edit
		if content.Folded(r.States[i].Edit) && r.offer.expand != expandNone {
			b.texts = append(b.texts, Block{r.stubName(i), content.OriginalText(r.View, &r.Blocks[i])})
		}
	}
	return b
}

// current reports whether the transaction is the last of its conversation. The session is locked.
func (x *Transaction) current() bool {
	l := x.conversation
	return len(l.States) > 0 && len(l.States) == len(x.req.States) && &l.States[0] == &x.req.States[0] &&
		!l.Refused.Has(wire.EditText)
}

// Current reports whether the conversation has had no request since the plan.
func (b *Background) Current() bool {
	b.x.req.session.Lock()
	defer b.x.req.session.Unlock()
	return b.x.current() && b.x.conversation.Requests == b.requests
}

// Commit makes the fold part of the conversation after the upstream has read it, so that the next
// request contains it. It returns false, and folds no block, if the conversation has had another
// request since.
func (b *Background) Commit(u wire.Usage) bool {
	x := b.x
	x.req.session.Lock()
	defer x.req.session.Unlock()
	l := x.conversation
	if !x.current() || l.Requests != b.requests {
		return false
	}
	for i, e := range b.folds {
		l.States[i].Edit = e
	}
	l.SetEdited(nil)
	l.Settled = b.hot
	l.Removed += float64(b.Removed)
	l.Ends.Cut(b.prefix)
	if u.Prompt() > 0 {
		// The cache now ends with this prompt: the output of the internal request is not part of
		// it.
		u.Output = 0
		l.Last, l.Estimate = u, b.estimate
	}
	return true
}

// Texts returns the texts of the folded blocks, by their names in the stubs.
func (b *Background) Texts() []Block { return b.texts }

// needless lists the blocks that no request needs any more, of any size.
func (q *planning) needless(r *request, e estimator) {
	for i := range q.in.Blocks {
		if free := r.needless(i); free > 0 {
			b := &q.in.Blocks[i]
			b.Whole, b.Part, b.Need = e.Tokens(r.Blocks[i].Kind, free), 0, 0
		}
	}
}

// needless returns the bytes of a block that no request needs any more: thinking of earlier
// responses, and texts that only announce a call.
func (r *request) needless(i int) int {
	switch {
	case r.Blocks[i].IsThinking():
		return r.foldable(i)
	case r.o.StripNarration.Mode != stage.Off && r.announces(i):
		return r.Blocks[i].Span.Len()
	}
	return 0
}
