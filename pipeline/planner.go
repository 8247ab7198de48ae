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
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/cachemodel"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// planner decides which blocks of a conversation to fold now. Folding removes
// ΔT tokens from every further request, which the upstream would have read
// from its cache; but what stands behind the first folded block has to be
// written to the cache again, as far as it was there. So the expected gain of
// folding everything worthwhile from depth d on is
//
//	Σ value(i ≥ d) − S(d)·(w−r)   with   value(i) = ΔT(i)·r·R − need(i)·refetch(i)
//
// where R is the number of further requests expected and S(d) the tokens kept
// between the deepest cache entry in front of d and the end of what is cached.
// Where nothing is cached (cold, another model, history that the client itself
// wrote anew) S is zero.
type planner struct {
	*frame
	lineage     *sessioncache.Lineage
	calibration *sessioncache.Calibration
	now         time.Time
	rate        float64 // corrects estimates by what the last usage said
	warm        int     // blocks that are cached as they were sent
	further     float64 // R
	total       float64 // tokens of the prompt as it stands
	base        float64 // tokens of it in front of the messages
	value       []float64
	saving      []float64 // tokens
	partly      []bool    // of a call, fold only what it replaced
	room        *room     // what they lie in
}

// plan folds what is worth it, under the policies that count costs.
func (f *frame) plan(p *planner) Decision {
	p.frame, p.room = f, rooms.Get().(*room)
	defer p.room.release()
	p.further = p.expect()
	p.warm = f.forwarded
	d := Decision{Epoch: NoEpoch, Further: p.further}
	switch {
	case f.cold:
		p.warm = 0
		d.Epoch = Cold
	case p.lineage != nil && p.lineage.Model != f.View.Model && f.rules.Regime != cachemodel.KV:
		p.warm = 0
		d.Epoch = ModelChanged
	case p.lineage != nil && f.Known < p.lineage.Len():
		d.Epoch = Diverged
	}
	if !f.View.OffersTools() || f.compaction() {
		d.Epoch, d.Reason = NoEpoch, "side request"
		return d
	}
	if f.loop && d.Epoch == NoEpoch && p.lineage != nil && f.bound {
		d.Reason = "the run of calls is open"
		return d
	}
	p.appraise(&d)
	if d.Candidates == 0 {
		d.Epoch, d.Reason = NoEpoch, "nothing to fold"
		return d
	}
	from, s, gain := p.best()
	d.Gain, d.Rewritten = gain, int(s)
	if from == len(f.Blocks) {
		d.Epoch, d.Reason = NoEpoch, "no gain"
		return d
	}
	if s > 0 && p.full() {
		d.Epoch = WindowNear
	} else if s > 0 {
		if d.Reason = p.forbids(s, gain); d.Reason != "" {
			d.Epoch = NoEpoch
			return d
		}
		if d.Epoch == NoEpoch || d.Epoch == Diverged {
			d.Epoch = TaskBoundary
			if f.loop {
				d.Epoch = InLoop
			}
		}
	}
	if s > 0 {
		p.at = p.entry(from)
	}
	d.Folded, d.Removed = p.fold(from)
	return d
}

// appraise values every block that could be folded.
func (p *planner) appraise(d *Decision) {
	n := len(p.Blocks)
	q := p.room
	q.value, q.saving, q.partly = zeroed(q.value, n), zeroed(q.saving, n), zeroed(q.partly, n)
	p.value, p.saving, p.partly = q.value, q.saving, q.partly
	w, r := p.write(), p.rules.Read
	prompt := 0.0
	for i := range p.View.Blocks {
		if i == p.View.System {
			p.base = prompt
		}
		prompt += p.weigh(p.View.Blocks[i].Kind, p.View.Blocks[i].Span.Len())
	}
	p.total = prompt
	cuts, some := p.cuts()
	if !some {
		return
	}
	known := p.appraisals(q, cuts)
	for i, c := range cuts {
		if c == (cut{}) {
			continue
		}
		worth := func(bytes int, need float64) (value, tokens float64) {
			if bytes < minFold {
				return 0, 0
			}
			tokens = p.weigh(p.Blocks[i].Kind, bytes)
			value = tokens * r * p.further
			if i >= p.warm {
				value += tokens * (w - r) // not written at all
			}
			return value - p.care(i)*need*(prompt*r+tokens*w+turnCost), tokens
		}
		need := p.learned(i, known[i].need())
		if isThinking(&p.Blocks[i]) {
			need = 0
		}
		p.value[i], p.saving[i] = worth(c.all, need)
		if v, tokens := worth(c.part, needReplaced); v > p.value[i] {
			p.value[i], p.saving[i], p.partly[i] = v, tokens, true
		}
		if p.value[i] <= 0 {
			p.value[i], p.saving[i] = 0, 0
			continue
		}
		d.Candidates++
	}
}

// needReplaced is the need of text that an edit has replaced: only an undoing of
// the edit could quote it.
const needReplaced = 0.001

// minReturn is what a fold that breaks a warm cache must be expected to gain,
// as a multiple of what it costs at first.
const minReturn = 0.1

// stakes bound what folds that have not paid back yet may cost, as a share of
// what the conversation has cost so far: so many times r/(w−r), between two
// tasks and in a run of calls, which may end sooner than it seems. The dearer
// writing is against reading, the longer a fold takes to pay back, and the
// more conversations end before.
const (
	stakeBetween = 6
	stakeInLoop  = 0.7
)

// turnCost is what one more answer costs besides its prompt, in uncached input
// tokens: a call of a hundred tokens at five times the input price, and the time.
const turnCost = 1000

// minFold is the saving in bytes below which a block is not folded.
const minFold = 300

// best finds the depth from which folding gains most: the first block to fold,
// what has to be written again, and the gain.
func (p *planner) best() (from int, rewritten, gain float64) {
	n := len(p.Blocks)
	from = n
	kept := zeroed(p.room.kept, n+1) // tokens that stay, from a block to the end of what is cached
	p.room.kept = kept
	for i := n - 1; i >= 0; i-- {
		kept[i] = kept[i+1]
		if i < p.warm {
			kept[i] += p.weigh(p.Blocks[i].Kind, p.sent(i)) - p.saving[i]
		}
	}
	sum, tokens := 0.0, 0.0
	w, pace := p.write(), p.pace()
	// What has to be written again if the fold begins at a block: all behind the
	// entry in front of it, where what stands before the fold keeps what would be
	// folded there.
	again := zeroed(p.room.again, n+1)
	p.room.again = again
	entry := n + 1
	for i := n - 1; i >= 0; i-- {
		if p.value[i] <= 0 {
			continue
		}
		sum += p.value[i]
		s := 0.0
		if i < p.warm {
			if entry > i {
				entry = p.entry(i)
				again[entry] = kept[entry]
				if front := p.base + kept[0] - kept[entry]; front < float64(p.rules.MinTokens) {
					again[entry] += front // too short to be found
				}
				for j := entry; j < i; j++ {
					again[j+1] = again[j] + p.saving[j]
				}
			}
			s = again[i] * p.caution()
		}
		tokens += p.saving[i]
		if i < p.forwarded && p.total-tokens < atLeast*float64(p.rules.MinTokens) {
			continue // what is left would not be cached any more
		}
		if g := sum - s*(w-p.rules.Read); g > gain && tokens*tokens/(2*pace)*p.rules.Read >= patience*s*(w-p.rules.Read) {
			from, rewritten, gain = i, s, g
		}
	}
	return from, rewritten, gain
}

// atLeast times the shortest prefix that is cached has to be left of a prompt.
const atLeast = 1.25

// pace is the number of tokens that become ready to be folded with a request, on
// average.
func (p *planner) pace() float64 {
	sum := 1.0
	for _, tokens := range p.saving {
		sum += tokens
	}
	if p.lineage != nil {
		sum = (sum + p.lineage.Removed) / float64(max(1, p.lineage.Requests))
	}
	return sum
}

// patience keeps folds apart. What is ready has been read again and again while
// it piled up: at an even pace, tokens²/(2·pace) times. Once that has cost this
// share of what a fold costs, the fold is made. With sooner ones the same blocks
// behind would be written over and over, with later ones too much would be read.
const patience = 0.3

// write is the price of a token written with the lifetime that this
// conversation's prefix has.
func (p *planner) write() float64 {
	if p.lineage != nil && p.rules.LongTTL > 0 && p.lineage.TTL == p.rules.LongTTL {
		return p.rules.Write1h
	}
	return p.rules.Write
}

// full tells whether the prompt comes so near the model's window that folding
// is better than what the client would do next: summarise and begin anew.
func (p *planner) full() bool {
	return p.rules.ContextWindow > 0 && p.total > nearWindow*float64(p.rules.ContextWindow) && !(p.loop && p.bound)
}

// nearWindow is the share of the window from which a prompt counts as near it.
const nearWindow = 0.85

// entry returns the end of the deepest cache entry in front of a block, in blocks.
func (p *planner) entry(i int) int {
	if p.rules.Regime == cachemodel.KV || p.rules.Regime == cachemodel.Automatic {
		return i
	}
	deepest := 0
	if p.lineage == nil {
		return 0
	}
	ttl := p.lineage.TTL
	if ttl == 0 {
		ttl = p.rules.TTL
	}
	for _, e := range p.lineage.Ends {
		if e.Blocks <= i && e.Blocks > deepest && p.now.Sub(e.At) < ttl-margin(ttl) {
			deepest = e.Blocks
		}
	}
	return deepest
}

// forbids says why a fold that breaks a warm cache is not made, "" if it is.
func (p *planner) forbids(s, gain float64) string {
	if p.loop && p.bound {
		return "thinking is bound and the run of calls is open"
	}
	stake := s * (p.write() - p.rules.Read)
	if gain < stake*minReturn {
		return "the gain is small"
	}
	// A conversation may end with this request. What the fold costs then must
	// be little beside what the conversation has cost so far.
	share := stakeBetween * p.rules.Read / (p.write() - p.rules.Read)
	if p.loop {
		share *= stakeInLoop / stakeBetween
	}
	if p.lineage == nil || stake+math.Max(p.lineage.Staked, -p.lineage.Spent) > share*p.lineage.Spent {
		return "too much at stake so early"
	}
	return ""
}

// expect estimates the number of further requests: by how many more such
// conversations of the tenant have run, if there were enough; or else by what is
// usual in the session, if that is more than the prior.
func (p *planner) expect() float64 {
	kind := sessioncache.Kind(p.View)
	if further, ok := p.session.Further(kind, p.lineage); ok {
		return math.Max(2, further/p.caution())
	}
	return math.Max(p.prior(), (p.session.Usual(kind, p.lineage)-p.requests())/p.caution())
}

// prior is the number of further requests that any conversation is expected to run.
func (p *planner) prior() float64 {
	return math.Max(2, (furtherAtFirst+furtherShare*p.requests())/p.caution())
}

// requests is the number of requests so far.
func (p *planner) requests() float64 {
	if p.lineage == nil {
		return 0
	}
	return float64(p.lineage.Requests)
}

// A conversation with tools that has run n requests runs that many more: recorded
// ones ran 77 more at n = 10, 55 at 50, 44 at 100. Fewer are counted on, for the
// sake of the short ones.
const (
	furtherAtFirst = 25
	furtherShare   = 0.3
)

// caution is how many times dearer than planned folds have turned out lately in
// this lineage, at least 1.
func (p *planner) caution() float64 {
	if p.lineage == nil {
		return 1
	}
	return math.Max(1, p.lineage.Caution)
}

// weigh estimates the tokens of some bytes of a kind of block.
func (p *planner) weigh(k wire.Kind, bytes int) float64 {
	return p.rate * p.calibration.PerByte(k) * float64(bytes)
}

// sent is the number of bytes that a whole block goes out in.
func (h *History) sent(i int) int {
	if h.removed(i) {
		return 0
	}
	return h.Blocks[i].Span.Len() - h.Blocks[i].Body.Len() + h.size(i)
}

// compaction tells whether the request asks for a summary of the conversation,
// after which there will be another one.
func (f *frame) compaction() bool {
	for i := len(f.Blocks) - 1; i >= 0 && f.Blocks[i].Role == wire.RoleUser; i-- {
		switch b := &f.Blocks[i]; {
		case b.Kind == wire.KindText && compacts(string(f.View.Bytes(b.Body))):
			return true
		case b.Kind == wire.KindOther && gjson.GetBytes(f.View.Bytes(b.Span), "type").Str == "compaction_trigger":
			return true
		}
	}
	return false
}
