// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package pipeline

import (
	"math"
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/cachemodel"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// On a local box a cached token costs nothing and a fold costs a wait, so in
// front of a request hardly any fold pays. Behind an answer, while nobody waits,
// it costs nothing either: the box reads the folded history in advance, and only
// if it has come to the end before the next request does the ledger change.

// Idle folds are valued by what a token in the prompt costs the box at each
// request besides its first reading: attention over it, and memory.
const idleRead = 0.1

// How many times its price the need of a block counts, besides what the option
// risk says. With these, five of the 561 edits in the recorded conversations of
// over 60 requests are harmed; with 3.6 for inputs it is seven.
const (
	idleReads  = 3.3 // a file that was read
	idleInputs = 4   // what a call has written into a file
	idleOthers = 0.5 // all else
)

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
	l := x.lineage
	if l == nil || x.Policy != CostAware || x.frozen || x.rules.Regime != cachemodel.KV || x.view.Partial ||
		!x.view.OffersTools() || x.frame.compaction() {
		return nil
	}
	x.session.Lock()
	defer x.session.Unlock()
	if !x.current() {
		return nil
	}
	f := *x.frame
	f.States, f.fresh, f.broken = slices.Clone(x.states), nil, math.MaxInt32
	f.texts = nil
	f.forwarded, f.Known, f.cold, f.loop = len(f.Blocks), len(f.Blocks), false, len(t.Calls) > 0
	p := &planner{frame: &f, lineage: l, calibration: &x.session.Calibration, now: x.start, rate: rate(l), warm: len(f.Blocks), room: rooms.Get().(*room)}
	defer p.room.release()
	p.further = p.prior() // the next pause is near: what is folded late costs little
	p.appraiseIdle()
	from, process := p.deepest(limit)
	if from == len(f.Blocks) {
		return nil
	}
	b := &Background{x: x, front: from, hot: f.hot(), Process: process, requests: l.Requests}
	b.Blocks, b.Removed = p.fold(from)
	if len(f.fresh) == 0 || b.Removed < minIdleTokens || float64(b.Removed) < minIdle*p.total {
		return nil
	}
	body, err := x.view.Splice(f.edits(nil))
	if err != nil {
		return nil
	}
	b.Body = body
	b.folds = make(map[int]*sessioncache.Edit, len(f.fresh))
	for i := range f.fresh {
		b.folds[i] = f.States[i].Edit
		if f.folded(i) && f.expand != expandNone {
			b.texts = append(b.texts, Block{f.stubName(i), f.original(i)})
		}
	}
	y := &Exchange{}
	y.measure(&f)
	b.estimate = x.session.Calibration.Tokens(&y.sizes)
	return b
}

// current tells whether the exchange is the last of its lineage. The session is
// locked.
func (x *Exchange) current() bool {
	l := x.lineage
	return len(l.States) > 0 && len(l.States) == len(x.states) && &l.States[0] == &x.states[0] && !l.Frozen
}

// Current tells whether the conversation has not gone on since the plan was made.
func (b *Background) Current() bool {
	b.x.session.Lock()
	defer b.x.session.Unlock()
	return b.x.current() && b.x.lineage.Requests == b.requests
}

// Commit makes the fold part of the conversation, once the upstream has read it:
// the next request is sent with it. It reports false if the conversation has gone
// on meanwhile; then nothing is folded.
func (b *Background) Commit(u wire.Usage) bool {
	x := b.x
	x.session.Lock()
	defer x.session.Unlock()
	l := x.lineage
	if !x.current() || l.Requests != b.requests {
		return false
	}
	for i, e := range b.folds {
		l.States[i].Edit = e
	}
	l.Settled = b.hot
	l.Removed += float64(b.Removed)
	l.Cut(b.front)
	if u.Prompt() > 0 {
		// What the next request finds is what this one has left there.
		u.Output = 0
		l.Last, l.Estimate = u, b.estimate
	}
	return true
}

// Texts are the texts of the folded blocks, by the names that their stubs have.
func (b *Background) Texts() []Block { return b.texts }

// appraiseIdle values every block that could be folded while nobody waits.
func (p *planner) appraiseIdle() {
	n := len(p.Blocks)
	p.value, p.saving, p.partly = make([]float64, n), make([]float64, n), make([]bool, n)
	for i := range p.View.Blocks {
		p.total += p.weigh(p.View.Blocks[i].Kind, p.View.Blocks[i].Span.Len())
	}
	cuts, _ := p.cutsOver(minIdleFold)
	known := p.appraisals(p.room, cuts)
	for i, c := range cuts {
		if free := p.needless(i); free > 0 {
			p.saving[i] = p.weigh(p.Blocks[i].Kind, free)
			p.value[i] = p.saving[i] * idleRead * p.further
			continue
		}
		if c == (cut{}) {
			continue
		}
		worth := func(bytes int, need float64) (value, tokens float64) {
			if bytes < minIdleFold {
				return 0, 0
			}
			tokens = p.weigh(p.Blocks[i].Kind, bytes)
			return tokens*idleRead*p.further - p.idleCare(i)*need*(p.total*idleRead+tokens+turnCost), tokens
		}
		p.value[i], p.saving[i] = worth(c.all, p.learned(i, known[i].need()))
		if v, tokens := worth(c.part, needReplaced); v > p.value[i] {
			p.value[i], p.saving[i], p.partly[i] = v, tokens, true
		}
		if p.value[i] <= 0 {
			p.value[i], p.saving[i] = 0, 0
		}
	}
}

// needless returns the bytes of a block that nobody needs any more, however few
// they are: thinking of earlier answers, and texts that only announce a call.
func (p *planner) needless(i int) int {
	switch {
	case isThinking(&p.Blocks[i]):
		return p.foldable(i)
	case p.o.StripNarration.Mode != Disabled && p.announces(i):
		return p.Blocks[i].Span.Len()
	}
	return 0
}

// idleCare is how many times its price the need of a folded block counts.
func (p *planner) idleCare(i int) float64 {
	care := p.o.Planner.care()
	switch {
	case p.Blocks[i].Kind == wire.KindToolUse:
		return care * idleInputs
	case p.States[i].Class == sessioncache.ClassRead:
		return care * idleReads
	}
	return care * idleOthers
}

// deepest is the first block of the largest fold that the upstream has to read no
// more than limit tokens for, and how many these are.
func (p *planner) deepest(limit int) (from, process int) {
	from = len(p.Blocks)
	kept := 0.0
	for i := len(p.Blocks) - 1; i >= 0; i-- {
		kept += p.weigh(p.Blocks[i].Kind, p.sent(i)) - p.saving[i]
		if limit > 0 && kept > float64(limit) {
			break
		}
		if p.value[i] > 0 {
			from, process = i, int(kept)
		}
	}
	return from, process
}
