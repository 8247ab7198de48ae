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
	"bytes"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/cachemodel"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// Fired counts what one stage did in one request.
type Fired struct {
	// Stage is the stage's name, as in the configuration.
	Stage string
	// Count is the number of its edits in the request that goes upstream,
	// those replayed from the ledger included.
	Count int
}

// Exchange is one request, from the decision what to send to the end of its
// answer. Its methods are called by one goroutine at a time.
type Exchange struct {
	// Body is what to send upstream: the client's own bytes where nothing was
	// edited, or where the policy only observes.
	Body []byte
	// Edited tells whether Body differs from the client's bytes.
	Edited bool
	// OriginalTokens and SentTokens are estimates of the prompt as the client
	// sent it and as the policy would have it. Where the policy only observes,
	// SentTokens tells what would have been sent.
	OriginalTokens, SentTokens int
	// Fired are the stages that did something, markers included.
	Fired []Fired
	// Policy is the policy in force.
	Policy Policy
	// Markers is the number of cache markers added.
	Markers int
	// Decision says why history was edited or left alone.
	Decision Decision
	// Lineage numbers the conversation within its session, -1 for one that
	// begins with this request and was not committed yet.
	Lineage int
	// Expansions are the calls that were answered on the way to the client's
	// message.
	Expansions []Expansion
	// Unwoven tells that what was hidden from the client in its last message
	// could not be put back, because the client has changed that message.
	Unwoven bool
	// Break says, once the exchange is committed, why the upstream's cache held
	// less than expected, NoBreak if it did not.
	Break Break
	// Err is set when the edits could not be applied, and so none were but those
	// that the conversation is bound to.
	Err error

	view    *wire.View
	session *sessioncache.Session
	match   sessioncache.Match
	frame   *frame
	rules   cachemodel.Rules
	start   time.Time
	states  []sessioncache.State
	lineage *sessioncache.Lineage // what Join or Commit made it part of
	before  before
	deep    bool // an edit was made of what had been forwarded
	frozen  bool
	resent  bool

	broken  int // blocks in front of the first fresh edit
	settled int // blocks in front of the hot tail, when folded
	stake   int // blocks in front of the marker that keeps an entry alive

	bill   Bill
	billed bool
	front  uint64           // hash of the client's prompt up to its first message block
	sent   []wire.Edit      // the edits that Body was made by
	stubs  bool             // Body holds stubs
	said   []wire.Iteration // what the client's message is made of
	first  wire.Usage       // of the first of them
	asked  []int            // the blocks that were asked for again

	sizes    sessioncache.Sizes // of what is sent
	grown    sessioncache.Sizes // of what is new in it
	estimate int                // of sizes, before correction
}

// settle fixes what is sent. The session is locked.
func (x *Exchange) settle(f *frame, markers []wire.Edit) {
	x.states, x.frame, x.Unwoven = f.states, f, f.unwoven
	x.broken, x.settled, x.stake = len(f.blocks), f.hot(), f.stake
	for i := range f.fresh {
		x.deep = x.deep || i < f.forwarded
		x.broken = min(x.broken, i)
	}
	original := x.measure(f)
	cal := &x.session.Calibration
	x.estimate = cal.Tokens(&x.sizes)
	scale := rate(x.match.Lineage)
	x.OriginalTokens = int(scale * float64(cal.Tokens(&original)))
	x.SentTokens = int(scale * float64(x.estimate))
	x.Markers = len(markers)
	x.Fired = fired(f, len(markers))
	if x.view.Partial {
		x.reckon()
	}

	edits := f.edits(markers)
	if len(edits) == 0 && !f.long || f.policy == Observe {
		return
	}
	body, err := x.view.Splice(edits)
	if err == nil {
		body, err = f.lengthenAuto(body)
	}
	if err != nil {
		x.Err = err
		x.unedit()
		if edits, body = x.committed(f); edits == nil {
			return
		}
		x.Fired = fired(f, 0)
	}
	x.Body, x.Edited, x.sent = body, !bytes.Equal(body, x.view.Raw), edits
	for i := range f.states {
		x.stubs = x.stubs || f.folded(i)
	}
}

// committed applies as much as can be of what the conversation is bound to, where
// the edits of a request contradict each other: its ledger, or, if the fault is in
// that, no more than the tool that its prompts begin with. The original alone would
// break the prefix.
func (x *Exchange) committed(f *frame) ([]wire.Edit, []byte) {
	f.long = false
	for i := range f.fresh {
		f.undo(i)
	}
	for range 2 {
		edits := f.edits(nil)
		if len(edits) == 0 {
			break
		}
		if body, err := x.view.Splice(edits); err == nil {
			return edits, body
		}
		for i := range x.states {
			x.states[i].Edit, x.states[i].Woven = nil, nil
		}
	}
	for i := range x.states {
		x.states[i].Edit, x.states[i].Woven = nil, nil
	}
	f.expand = expandNone
	return nil, nil
}

// reckon estimates the whole prompt of a request that holds the end of it: what the
// last one took, what was answered, and what is new. The session is locked.
func (x *Exchange) reckon() {
	l := x.match.Lineage
	if l == nil || l.Last.Prompt() == 0 {
		return
	}
	var more sessioncache.Sizes
	for _, b := range x.view.MessageBlocks() {
		more.Add(b.Kind, b.Span.Len())
	}
	x.SentTokens = int(l.Last.Prompt()+l.Last.Output) + x.session.Calibration.Tokens(&more)
	x.OriginalTokens = x.SentTokens + l.Less
}

// rate corrects estimates by what the last request of a lineage really took.
func rate(l *sessioncache.Lineage) float64 {
	if l == nil || l.Estimate == 0 || l.Last.Prompt() == 0 {
		return 1
	}
	return min(max(float64(l.Last.Prompt())/float64(l.Estimate), 0.25), 4)
}

// measure sums up the sizes of the original, and of what is sent in x.
func (x *Exchange) measure(f *frame) sessioncache.Sizes {
	var original sessioncache.Sizes
	for i := range f.view.Blocks {
		b := &f.view.Blocks[i]
		n := b.Span.Len()
		original.Add(b.Kind, n)
		j := i - f.view.System
		if j >= 0 {
			switch e := f.states[j].Edit; {
			case e == nil:
			case e.Op == wire.OpRemove:
				n = 0
			default:
				n += len(e.Value) - b.Body.Len()
			}
			w := f.states[j].Woven.Size()
			x.sizes.Add(wire.KindToolResult, w)
			if j >= f.previous {
				x.grown.Add(b.Kind, n)
				x.grown.Add(wire.KindToolResult, w)
			}
		}
		x.sizes.Add(b.Kind, n)
	}
	if e, ok := f.declaration(); ok {
		x.sizes.Add(wire.KindToolDef, len(e.Value))
	}
	return original
}

// fired counts edits by stage, in the order of the stages.
func fired(f *frame, markers int) []Fired {
	names := [...]string{stageAdmission, stageThinking, stageNarration, stageToolResults, stagePrune, stageReplaced, stageInputs, stageExpand, stageBreakpoints}
	counts := [len(names)]int{len(names) - 1: markers}
	if f.expand == expandDeclared {
		counts[len(names)-2]++
	}
	for i := range f.states {
		if f.states[i].Woven != nil {
			counts[len(names)-2]++
		}
		if e := f.states[i].Edit; e != nil {
			for j, name := range names {
				if name == e.Stage {
					counts[j]++
				}
			}
		}
	}
	var out []Fired
	for j, n := range counts {
		if n > 0 {
			out = append(out, Fired{names[j], n})
		}
	}
	return out
}

// unedit takes every edit out of the exchange: the original is sent.
func (x *Exchange) unedit() {
	x.Body, x.Edited, x.Fired, x.Markers = x.view.Raw, false, nil, 0
	x.SentTokens = x.OriginalTokens
	x.deep = true // what was estimated is not what was sent
}

// OnlyMarks tells whether all that was edited are markers of the cache: the model
// reads what the client wrote.
func (x *Exchange) OnlyMarks() bool {
	for _, f := range x.Fired {
		if f.Stage != stageBreakpoints {
			return false
		}
	}
	return x.Edited
}

// OffersTools tells whether the model is offered any tool, be it by what the provider
// holds. Of that which began elsewhere nothing is known: it is taken for a conversation.
func (x *Exchange) OffersTools() bool {
	if x.view.OffersTools() || !x.view.InheritsTools() {
		return x.view.OffersTools()
	}
	l := x.match.Lineage
	return l == nil || l.Partial || l.Kind>>16 > 0
}

// Summarizes tells whether the request asks for a summary of a conversation.
func (x *Exchange) Summarizes() bool { return x.frame != nil && x.frame.compaction() }

// Resent tells that the upstream refused the request for an edit of ours. Body
// is then what to send in its place: the client's original, or, where earlier
// thinking has seen edits and is bound to them, the request with those alone.
// Unless it is refused as well, see [Exchange.Acquitted], the conversation is not
// edited anew from here on.
func (x *Exchange) Resent() {
	x.session.Lock()
	defer x.session.Unlock()
	x.resent, x.frozen = true, true
	f := x.frame
	f.keep(x.match)
	f.long = false
	x.unedit()
	if edits := f.edits(nil); len(edits) > 0 {
		if body, err := x.view.Splice(edits); err == nil {
			x.Body, x.Edited, x.Fired, x.sent = body, true, fired(f, 0), edits
		}
	}
}

// Close tells, after Commit, that nothing of the exchange is used any more.
func (x *Exchange) Close() {
	if x.lineage == nil {
		return
	}
	x.session.Lock()
	defer x.session.Unlock()
	x.session.Leave(x.lineage, x.view)
}

// Acquitted tells, after Resent, that the upstream refused what it got in the
// place of the request in such words, too: it was no edit of ours.
func (x *Exchange) Acquitted() { x.resent, x.frozen = false, false }

// convict has the conversation left alone, once it is clear that an edit of ours
// was refused. The session is locked.
func (x *Exchange) convict() {
	l := x.match.Lineage
	if l == nil || !x.resent {
		return
	}
	l.Frozen = true
	if !x.rules.BindsThinking {
		for i := range l.States {
			l.States[i].Edit, l.States[i].Woven = nil, nil
		}
		l.Expand = false
	}
}

// Join makes the request part of the conversation as soon as the model has said all
// that it will say, so that the next request finds it known, be it quicker than what
// the answer costs, which may come last. [Exchange.Commit] is to follow.
func (x *Exchange) Join(t *wire.Turn) {
	x.session.Lock()
	defer x.session.Unlock()
	x.join(t)
}

// before is what a lineage was before an exchange became part of it.
type before struct {
	last      wire.Usage
	continued bool
	diverged  bool
	left      int64 // tokens that the last request left in the cache
	cause     Break // why they are not there, if they are not
	requests  int   // of the lineage, this one included
}

func (x *Exchange) join(t *wire.Turn) {
	if x.lineage != nil {
		return
	}
	x.convict()
	prev := x.match.Lineage
	x.before = before{diverged: x.diverged()}
	if prev != nil {
		x.before.last, x.before.continued = prev.Last, x.match.Common == prev.Len()
		x.before.left, x.before.cause = x.foresee(prev)
	}
	x.count(t)
	l := x.session.Commit(x.match, x.view, x.states)
	x.lineage = l
	l.Frozen = l.Frozen || x.frozen
	l.Observed = x.Policy == Observe
	l.Model = x.view.Model
	if !l.Beyond {
		l.Kind = sessioncache.Kind(x.view)
	}
	x.recognise(l, t)
	x.Lineage = l.ID()
	if !l.Beyond {
		l.Less = max(x.OriginalTokens-x.SentTokens, 0)
		if x.Policy == Observe {
			l.Less = 0
		}
	}
	l.Diverged = l.Diverged || x.Edited || x.before.diverged
	// A request that forces a call, or offers no tools, goes without the tool
	// and leaves it to the conversation.
	l.Expand = x.frame.expand == expandDeclared || prev != nil && prev.Expand && x.frame.expand == expandNone
	l.Said = x.said
	x.learnExpansions(l)
	if x.Decision.Epoch != "" {
		l.Decision = x.Decision.String()
	}
	if x.session.Ran(l); l.Requests == 1 {
		l.Created = x.start
	}
	if ttl := x.rules.TTL; ttl > 0 && !l.Started.IsZero() && x.start.Sub(l.Started) > ttl {
		l.Pauses++
	}
	l.Started = x.start
	l.OriginalTokens += int64(x.OriginalTokens)
	l.SentTokens += int64(x.SentTokens)
	x.before.requests = l.Requests
}

// Commit makes the request and its answer part of the conversation, if [Exchange.Join]
// has not, and notes what it has cost. It must be called only when the answer came to
// its proper end, and once.
func (x *Exchange) Commit(t *wire.Turn, now time.Time) {
	x.session.Lock()
	defer x.session.Unlock()
	x.join(t)
	l := x.lineage
	usage := t.Usage
	if x.said != nil {
		usage = x.first
	}
	x.Break = x.attribute(usage)
	if !x.billed && t.Usage.Prompt() > 0 {
		x.bill, x.billed = x.charge(t.Usage), true
	}
	l.Cost.Add(x.bill.Cost, x.bill.ClientCost, x.bill.Dollars, x.bill.ClientDollars)
	if l.Requests != x.before.requests { // the next request was quicker than the usage
		l.Total = l.Total.Add(t.Usage)
		return
	}
	if !l.Beyond {
		l.Front = x.front
	}
	if t.Usage.Prompt() == 0 {
		return
	}
	if x.Break != NoBreak {
		l.Broke(string(x.Break))
	}
	x.learnCost(l, usage)
	l.Last, l.Total = usage, l.Total.Add(t.Usage)
	x.account(l, t.Usage)
	switch {
	case t.Usage.Write1h > 0:
		l.TTL = x.rules.Lifetime(true)
	case t.Usage.Write5m > 0:
		l.TTL = x.rules.Lifetime(false)
	}
	if x.Policy == Observe || x.view.Partial {
		l.Estimate = 0 // what was estimated is not what was sent, or not all of it
		return
	}
	l.Estimate = x.estimate
	if b := &x.before; b.continued && !x.deep && b.last.Prompt() > 0 {
		x.session.Calibration.Learn(&x.grown, usage.Prompt()-b.last.Prompt())
	}
}

// recognise notes the answers by which later requests find the conversation.
func (x *Exchange) recognise(l *sessioncache.Lineage, t *wire.Turn) {
	v := x.view
	if l.Reply = (wire.Hash{}); !v.Thread.Empty() || v.Unthreaded || v.Format == wire.OpenAIResponses && !v.Stateless {
		l.Reply = wire.AnswerID(t.ID)
	}
	if v.Partial || !l.First.IsZero() {
		return
	}
	if l.First = v.FirstAnswer(); l.First.IsZero() {
		l.First = v.AnsweredBy(t)
	}
}

// account notes what the request cost and where the upstream now holds entries.
func (x *Exchange) account(l *sessioncache.Lineage, u wire.Usage) {
	l.Spent += x.rules.Cost(u)
	if x.Policy == Observe {
		return
	}
	if l.Beyond { // it is read and written as it was told
		l.Mark(l.Len(), x.start)
		return
	}
	d := &x.Decision
	l.Staked -= float64(x.OriginalTokens-x.SentTokens) * x.rules.Read
	if d.Folded > 0 {
		l.Staked += float64(d.Rewritten) * (x.rules.Write - x.rules.Read)
		l.Settled = x.settled
		l.Removed += float64(d.Removed)
		l.Cut(x.broken)
	}
	if x.stake > 0 {
		l.Mark(x.stake, x.start)
	}
	if x.match.Common > 0 && x.match.Common <= x.broken {
		l.Mark(x.match.Common, x.start) // found, and so refreshed
	}
	l.Mark(len(x.states), x.start)
}

// Abandon tells that the answer failed or was cut off. Nothing is remembered,
// except that a conversation in which an edit was refused is left alone.
func (x *Exchange) Abandon() {
	if !x.resent {
		return
	}
	x.session.Lock()
	defer x.session.Unlock()
	if x.match.Lineage != nil {
		x.convict()
		return
	}
	l := x.session.Commit(x.match, x.view, x.states)
	l.Frozen = true
	l.Created, l.Started, l.Model = x.start, x.start, x.view.Model
}

// count raises the K counters of the blocks that the answer does not refer to,
// and resets those that it does refer to.
func (x *Exchange) count(t *wire.Turn) {
	var m *mention
	for i := range x.states {
		s := &x.states[i]
		if s.Trait == "" {
			continue
		}
		if m == nil {
			m = newMention(t)
		}
		if m.of(s.Trait) {
			s.Unused = 0
		} else if s.Unused < 1<<15 {
			s.Unused++
		}
	}
	if m != nil {
		m.release()
	}
}
