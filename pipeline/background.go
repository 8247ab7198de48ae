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

	x        *Exchange
	folds    map[int]*sessioncache.Edit
	texts    []Block
	front    int // blocks before the first fold
	hot      int
	estimate int
	requests int
}

// Background plans a fold between requests; call it after Commit. It returns nil if no block is
// worth folding, or if a fold is pointless under the upstream's cache rules. Process is at most
// limit, 0 for no limit.
func (x *Exchange) Background(t *wire.Turn, limit int) *Background {
	l := x.standing.lineage
	// Only caches of the regime KV read a prefix for free.
	if l == nil || x.Policy != CostAware || x.refusal.off.Has(wire.EditText) || x.req.rules.Regime != pricing.KV || x.req.View.Conversation.Partial ||
		!x.req.View.OffersTools() || content.Compacts(x.req.View) || x.req.orders.given.Cuts() {
		return nil
	}
	x.req.session.Lock()
	defer x.req.session.Unlock()
	if !x.current() {
		return nil
	}
	// The plan works on a copy: the exchange stays as it was sent.
	r := *x.req
	r.States, r.ledger.fresh, r.ledger.broken = slices.Clone(x.req.States), nil, math.MaxInt32
	r.Texts = nil
	r.cached.forwarded, r.Known, r.cached.cold, r.run.loop = len(r.Blocks), len(r.Blocks), false, len(t.Calls) > 0
	q := newPlanning()
	defer q.release()
	q.in.Moment = planner.Moment{Epoch: planner.NoEpoch, Loop: r.run.loop, Bound: r.thoughts.bound, Begun: true, Regretted: r.regretted.TooMuch()}
	q.in.Further = leastRequests(l) // the next pause is near, so a late fold costs little
	q.cut(&r, minIdleFold)
	q.gather(&r, l, x.start)
	q.needless(&r, newEstimator(&x.req.session.Calibration, l))
	folds, from, process := planner.Idle(&q.in, &q.scratch, limit)
	if len(folds) == 0 {
		return nil
	}
	b := &Background{x: x, front: from, hot: r.hot(), Process: process, requests: l.Requests}
	b.Blocks, b.Removed = r.fold(folds)
	r.compress() // the server reads the blocks after the fold anyway
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

// current reports whether the exchange is the last of its conversation. The session is locked.
func (x *Exchange) current() bool {
	l := x.standing.lineage
	return len(l.States) > 0 && len(l.States) == len(x.req.States) && &l.States[0] == &x.req.States[0] && !l.Refused.Has(wire.EditText)
}

// Current reports whether the conversation has had no request since the plan.
func (b *Background) Current() bool {
	b.x.req.session.Lock()
	defer b.x.req.session.Unlock()
	return b.x.current() && b.x.standing.lineage.Requests == b.requests
}

// Commit makes the fold part of the conversation after the upstream has read it, so that the next
// request contains it. It returns false, and folds no block, if the conversation has had another
// request since.
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
	case content.IsThinking(&r.Blocks[i]):
		return r.foldable(i)
	case r.o.StripNarration.Mode != stage.Off && r.announces(i):
		return r.Blocks[i].Span.Len()
	}
	return 0
}
