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

	"github.com/caddy-llm-cache/caddy-llm-cache/cachemodel"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// frame is one request on its way through the stages.
type frame struct {
	o       *Options
	policy  Policy
	rules   cachemodel.Rules
	view    *wire.View
	session *sessioncache.Session
	blocks  []wire.Block         // the message blocks
	states  []sessioncache.State // one for each of blocks
	zones   zones

	// forwarded is the number of blocks that may be cached upstream in the
	// bytes they went out in last time.
	forwarded int
	// previous is the number of blocks that stood in the last request too.
	previous int
	// held is the number of blocks that the provider has had as they came, in
	// requests that held the end of the conversation only: they are not admitted.
	held int
	// bound tells that what the model has thought is bound to what stood before
	// it: by the provider's checks, or because it is left out otherwise.
	bound bool
	// sealed tells that thinking goes upstream as reasoning items of the Responses
	// API, and is treated as they are: what was sent is sent again.
	sealed bool
	// cold tells that the upstream's cache is known to have expired.
	cold bool
	// loop tells that the model is in the middle of a run of tool calls;
	// task is the first block of that run, or the number of blocks.
	loop bool
	task int
	// answer is the first block of the last answer.
	answer int
	// at is the end of the cache entry that a fold in this request builds on,
	// and stake the place from which the next fold is expected to begin.
	at, stake int
	// settled is where the last fold ended.
	settled int
	// long tells that the client's markers go out with the long lifetime.
	long bool

	// expand says what is done about the expand tool; unwoven tells that what
	// was said on the way to the client's last message could not be put back.
	expand  expandTool
	unwoven bool

	// texts are the texts of the new blocks that were decoded so far, and page
	// is where they lie.
	texts []string
	page  *page
	// callees are the calls that new results answer, where there are many, plus two;
	// zero for what was not looked for.
	callees []int32
	// earlier finds blocks in front of another; compared are the bytes of those that
	// were compared with it.
	earlier  earlier
	compared int
	// fresh are the edits made in this request, by block: what the state was
	// before. Deep edits can be taken back as long as nothing was sent.
	fresh map[int]*sessioncache.Edit
	// broken is the first message that differs from what the upstream has
	// cached, because of a fresh edit in it or in the results of its calls.
	broken int32
}

// smallGain is the saving in bytes below which an edit that throws away cached
// bytes is not made for its own sake: what stands behind it, at least the hot
// zone, would be written anew for less than it is read for.
const smallGain = 320

func newFrame(o *Options, rules cachemodel.Rules, v *wire.View, s *sessioncache.Session, m sessioncache.Match, now time.Time) *frame {
	f := &frame{o: o, policy: o.Policy, rules: rules, view: v, session: s, blocks: v.MessageBlocks(), previous: m.Common, forwarded: m.Common, broken: math.MaxInt32}
	f.states = sessioncache.NewStates(len(f.blocks))
	f.zones = newZones(&o.Zones, v)
	f.bound = rules.BindsThinking
	f.findTask()
	f.answer = f.lastAnswer()
	if l := m.Lineage; l != nil {
		n := copy(f.states, l.States[:min(m.Common, len(l.States))])
		if l.Observed != (f.policy == Observe) {
			// What was only observed was never sent, and the other way round.
			for i := range n {
				f.states[i].Edit = nil
			}
		}
		f.cold = f.expired(l, now)
		if l.Settled <= m.Common {
			f.settled = l.Settled
		}
		if l.Beyond && !v.Partial && !f.cold {
			f.held = max(f.lastSaid(), m.Common)
			f.forwarded = f.held
		}
		return f
	}
	// A history that this process has not seen. If it has been watching for
	// longer than any lifetime, the cache is cold; else it may be warm, and
	// all that an upstream may have been shown counts as forwarded.
	longest := max(rules.TTL, rules.LongTTL)
	f.cold = rules.TTL > 0 && s.Unseen > longest+margin(longest)
	f.forwarded = f.lastSaid()
	return f
}

// lastSaid returns the last block of the model's, 0 if there is none.
func (f *frame) lastSaid() int {
	for i := len(f.blocks) - 1; i >= 0; i-- {
		if f.blocks[i].Role == wire.RoleAssistant {
			return i
		}
	}
	return 0
}

// expired tells whether the cached prefix of a lineage has outlived its
// lifetime for certain.
func (f *frame) expired(l *sessioncache.Lineage, now time.Time) bool {
	ttl := l.TTL
	if ttl == 0 {
		ttl = f.rules.Lifetime(f.longMarker())
	}
	return ttl > 0 && !l.Started.IsZero() && now.Sub(l.LastUse()) > ttl+margin(ttl)
}

// margin is how much longer than the lifetime a pause must be to count as
// certain: clocks differ, and the request takes time to arrive.
func margin(ttl time.Duration) time.Duration { return min(ttl/10, time.Minute) }

// findTask finds out whether the request continues a run of tool calls, and
// where that run began: behind the last prompt of a person.
func (f *frame) findTask() {
	f.task = len(f.blocks)
	for i := len(f.view.Messages) - 1; i >= 0; i-- {
		m := &f.view.Messages[i]
		switch {
		case m.Role == wire.RoleAssistant:
			if f.task == len(f.blocks) && !f.loop {
				return // the request ends in a prompt
			}
			f.task = int(m.First) - f.view.System
		case f.answersTool(m):
			f.loop = true
		case m.Role == wire.RoleUser:
			if f.loop {
				return
			}
		}
	}
}

func (f *frame) answersTool(m *wire.Message) bool {
	for i := m.First; i < m.End; i++ {
		if f.view.Blocks[i].Kind == wire.KindToolResult || f.view.Blocks[i].Kind == wire.KindServerTool {
			return true
		}
	}
	return false
}

// may tells whether the policy allows a new edit of a block now.
func (f *frame) may(i int) bool {
	return f.policy == Eager || i >= f.forwarded || f.cold || f.blocks[i].Message >= f.broken
}

// pays tells whether an edit that saves some bytes should be made now. Under
// On it should whenever the policy allows it. Under Auto a small one waits
// until it throws nothing away: the block was never forwarded, the cache is
// cold, or another edit in front of it has broken the prefix already.
func (f *frame) pays(m Mode, i, saving int) bool {
	return m == On || saving >= smallGain || f.free(i)
}

func (f *frame) free(i int) bool {
	return i >= f.previous || f.cold || f.blocks[i].Message >= f.broken
}

// set enters an edit of a block in the ledger.
func (f *frame) set(i int, stage string, op wire.Op, value []byte) {
	if f.fresh == nil {
		f.fresh = make(map[int]*sessioncache.Edit)
	}
	if _, again := f.fresh[i]; !again {
		f.fresh[i] = f.states[i].Edit
	}
	f.states[i].Edit = &sessioncache.Edit{Stage: stage, Op: op, Value: value}
	message := f.blocks[i].Message
	if f.blocks[i].Kind == wire.KindToolResult && message > 0 {
		message-- // the calls are all that stands between
	}
	f.broken = min(f.broken, message)
}

// undo takes a fresh edit back.
func (f *frame) undo(i int) {
	f.states[i].Edit = f.fresh[i]
	delete(f.fresh, i)
}

func (f *frame) removed(i int) bool {
	e := f.states[i].Edit
	return e != nil && e.Op == wire.OpRemove
}

// message returns the range of a block's message in blocks.
func (f *frame) message(i int) (first, end int) {
	m := &f.view.Messages[f.blocks[i].Message]
	return int(m.First) - f.view.System, int(m.End) - f.view.System
}

// alone tells whether no other block of the message would stay if the block
// were removed.
func (f *frame) alone(i int) bool {
	first, end := f.message(i)
	for j := first; j < end; j++ {
		if j != i && !f.removed(j) {
			return false
		}
	}
	return true
}

// size is the number of bytes a block's body goes out in.
func (f *frame) size(i int) int {
	switch e := f.states[i].Edit; {
	case e == nil:
		return f.blocks[i].Body.Len()
	case e.Op == wire.OpRemove:
		return 0
	default:
		return len(e.Value)
	}
}

// longMarker tells whether the client asks for the long cache lifetime.
func (f *frame) longMarker() bool {
	for i := range f.view.Blocks {
		if m := f.view.Blocks[i].Marker; !m.Empty() && isLong(f.view.Bytes(m)) {
			return true
		}
	}
	return isLong(f.view.Bytes(f.view.AutoMarker))
}
