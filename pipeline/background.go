// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"math"
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// On a local box a cached token costs nothing and a fold costs a wait, so in
// front of a request hardly any fold pays. Behind an answer, while nobody waits,
// it costs nothing either: the box reads the folded history in advance, and only
// if it has come to the end before the next request does the ledger change.

const (
	// minIdle is the share of the prompt below which a fold is not worth the
	// work, and minIdleTokens the same in tokens.
	minIdle       = 0.002
	minIdleTokens = 100
	// minIdleFold is the saving in bytes below which a block is not folded: little,
	// for what stands behind it is read anyway.
	minIdleFold = 150
)

// Background is a fold of a conversation that has just been answered, for the
// upstream to read while nobody waits.
type Background struct {
	// Body is the last request, folded, in the client's format.
	Body []byte
	// Blocks is the number of blocks folded, Removed what they took in tokens,
	// and Process what the upstream has to read, both estimated.
	Blocks, Removed, Process int

	x        *Exchange
	folds    map[int]*sessioncache.Edit
	texts    []Block
	front    int // blocks in front of the first fold
	hot      int
	estimate int
	requests int
}

// Background plans what to fold while nobody waits, after Commit. It returns nil
// where that is nothing, or where the rules of the upstream's cache make it
// pointless. Process is at most limit, 0 for any.
func (x *Exchange) Background(t *wire.Turn, limit int) *Background {
	l := x.standing.lineage
	if l == nil || x.Policy != CostAware || x.refusal.off.Has(wire.EditText) || x.req.rules.Regime != pricing.KV || x.req.View.Conversation.Partial ||
		!x.req.View.OffersTools() || content.Compacts(x.req.View) || x.req.orders.given.Cuts() {
		return nil
	}
	x.req.session.Lock()
	defer x.req.session.Unlock()
	if !x.current() {
		return nil
	}
	r := *x.req
	r.States, r.ledger.fresh, r.ledger.broken = slices.Clone(x.req.States), nil, math.MaxInt32
	r.Texts = nil
	r.cached.forwarded, r.Known, r.cached.cold, r.run.loop = len(r.Blocks), len(r.Blocks), false, len(t.Calls) > 0
	q := newPlanning()
	defer q.release()
	q.in.Moment = planner.Moment{Epoch: planner.NoEpoch, Loop: r.run.loop, Bound: r.thoughts.bound, Begun: true, Regretted: r.regretted.TooMuch()}
	q.in.Further = leastRequests(l) // the next pause is near: what is folded late costs little
	q.cut(&r, minIdleFold)
	q.gather(&r, l, x.start)
	q.needless(&r, newEstimator(&x.req.session.Calibration, l))
	folds, from, process := planner.Idle(&q.in, &q.scratch, limit)
	if len(folds) == 0 {
		return nil
	}
	b := &Background{x: x, front: from, hot: r.hot(), Process: process, requests: l.Requests}
	b.Blocks, b.Removed = r.fold(folds)
	r.compress() // what stands behind is read anew
	if len(r.ledger.fresh) == 0 || b.Removed < minIdleTokens || float64(b.Removed) < minIdle*q.in.Total {
		return nil
	}
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
	s, _ := measure(&r)
	b.estimate = s.estimate
	return b
}

// current reports whether the exchange is the last of its lineage. The session is
// locked.
func (x *Exchange) current() bool {
	l := x.standing.lineage
	return len(l.States) > 0 && len(l.States) == len(x.req.States) && &l.States[0] == &x.req.States[0] && !l.Refused.Has(wire.EditText)
}

// Current reports whether the conversation has not gone on since the plan was made.
func (b *Background) Current() bool {
	b.x.req.session.Lock()
	defer b.x.req.session.Unlock()
	return b.x.current() && b.x.standing.lineage.Requests == b.requests
}

// Commit makes the fold part of the conversation, once the upstream has read it:
// the next request is sent with it. It reports false if the conversation has gone
// on meanwhile; then nothing is folded.
func (b *Background) Commit(u wire.Usage) bool {
	x := b.x
	x.req.session.Lock()
	defer x.req.session.Unlock()
	l := x.standing.lineage
	if !x.current() || l.Requests != b.requests {
		return false
	}
	for i, e := range b.folds {
		l.States[i].Edit = e
	}
	l.Settled = b.hot
	l.Removed += float64(b.Removed)
	l.Ends.Cut(b.front)
	if u.Prompt() > 0 {
		// What the next request finds is what this one has left there.
		u.Output = 0
		l.Last, l.Estimate = u, b.estimate
	}
	return true
}

// Texts are the texts of the folded blocks, by the names that their stubs have.
func (b *Background) Texts() []Block { return b.texts }

// needless lists what nobody needs any more, however little it is.
func (q *planning) needless(r *request, e estimator) {
	for i := range q.in.Blocks {
		if free := r.needless(i); free > 0 {
			b := &q.in.Blocks[i]
			b.Whole, b.Part, b.Need = e.Tokens(r.Blocks[i].Kind, free), 0, 0
		}
	}
}

// needless returns the bytes of a block that nobody needs any more, however few
// they are: thinking of earlier answers, and texts that only announce a call.
func (r *request) needless(i int) int {
	switch {
	case content.IsThinking(&r.Blocks[i]):
		return r.foldable(i)
	case r.o.StripNarration.Mode != stage.Off && r.announces(i):
		return r.Blocks[i].Span.Len()
	}
	return 0
}
