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
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/history"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// frame is one request on its way through the stages.
type frame struct {
	history.History
	o       *Options
	policy  Policy
	rules   cachemodel.Rules
	session *sessioncache.Session
	zones   zones

	// forwarded is the number of blocks that may be cached upstream in the
	// bytes they went out in last time.
	forwarded int
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
	f := &frame{o: o, policy: o.Policy, rules: rules, session: s, forwarded: m.Common, broken: math.MaxInt32}
	f.History = history.History{View: v, Blocks: v.MessageBlocks(), Known: m.Common}
	f.States = sessioncache.NewStates(len(f.Blocks))
	f.zones = newZones(&o.Zones, v)
	f.bound = rules.BindsThinking
	f.findTask()
	f.answer = f.LastAnswer()
	if l := m.Lineage; l != nil {
		n := copy(f.States, l.States[:min(m.Common, len(l.States))])
		if l.Observed != (f.policy == Observe) {
			// What was only observed was never sent, and the other way round.
			for i := range n {
				f.States[i].Edit = nil
			}
		}
		f.cold = f.expired(l, now)
		if l.Settled <= m.Common {
			f.settled = l.Settled
		}
		if l.Beyond && !v.Partial && !f.cold {
			f.held = max(f.LastSaid(), m.Common)
			f.forwarded = f.held
		}
		return f
	}
	// A history that this process has not seen. If it has been watching for
	// longer than any lifetime, the cache is cold; else it may be warm, and
	// all that an upstream may have been shown counts as forwarded.
	longest := max(rules.TTL, rules.LongTTL)
	f.cold = rules.TTL > 0 && s.Unseen > longest+margin(longest)
	f.forwarded = f.LastSaid()
	return f
}

// expired tells whether the cached prefix of a lineage has outlived its
// lifetime for certain.
func (f *frame) expired(l *sessioncache.Lineage, now time.Time) bool {
	ttl := l.TTL
	if ttl == 0 {
		ttl = f.rules.Lifetime(history.LongMarker(f.View))
	}
	return ttl > 0 && !l.Started.IsZero() && now.Sub(l.LastUse()) > ttl+margin(ttl)
}

// margin is how much longer than the lifetime a pause must be to count as
// certain: clocks differ, and the request takes time to arrive.
func margin(ttl time.Duration) time.Duration { return min(ttl/10, time.Minute) }

// findTask finds out whether the request continues a run of tool calls, and
// where that run began: behind the last prompt of a person.
func (f *frame) findTask() {
	f.task = len(f.Blocks)
	for i := len(f.View.Messages) - 1; i >= 0; i-- {
		m := &f.View.Messages[i]
		switch {
		case m.Role == wire.RoleAssistant:
			if f.task == len(f.Blocks) && !f.loop {
				return // the request ends in a prompt
			}
			f.task = int(m.First) - f.View.System
		case answersTool(f.View, m):
			f.loop = true
		case m.Role == wire.RoleUser:
			if f.loop {
				return
			}
		}
	}
}

func answersTool(v *wire.View, m *wire.Message) bool {
	for i := m.First; i < m.End; i++ {
		if v.Blocks[i].Kind == wire.KindToolResult || v.Blocks[i].Kind == wire.KindServerTool {
			return true
		}
	}
	return false
}

// may tells whether the policy allows a new edit of a block now.
func (f *frame) may(i int) bool {
	return f.policy == Eager || i >= f.forwarded || f.cold || f.Blocks[i].Message >= f.broken
}

// pays tells whether an edit that saves some bytes should be made now. Under
// On it should whenever the policy allows it. Under Auto a small one waits
// until it throws nothing away: the block was never forwarded, the cache is
// cold, or another edit in front of it has broken the prefix already.
func (f *frame) pays(m stage.Mode, i, saving int) bool {
	return m == stage.On || saving >= smallGain || f.free(i)
}

func (f *frame) free(i int) bool {
	return i >= f.Known || f.cold || f.Blocks[i].Message >= f.broken
}

// set enters an edit of a block in the ledger.
func (f *frame) set(i int, stage string, op wire.Op, value []byte) {
	if f.fresh == nil {
		f.fresh = make(map[int]*sessioncache.Edit)
	}
	if _, again := f.fresh[i]; !again {
		f.fresh[i] = f.States[i].Edit
	}
	f.States[i].Edit = &sessioncache.Edit{Stage: stage, Op: op, Value: value}
	message := f.Blocks[i].Message
	if f.Blocks[i].Kind == wire.KindToolResult && message > 0 {
		message-- // the calls are all that stands between
	}
	f.broken = min(f.broken, message)
}

// undo takes a fresh edit back.
func (f *frame) undo(i int) {
	f.States[i].Edit = f.fresh[i]
	delete(f.fresh, i)
}
