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
	"strings"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/cachemodel"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/history"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// Idle is a conversation that has fallen idle and whose cache is worth keeping,
// as far as the conversation itself tells.
type Idle struct {
	// Lineage is the number of the conversation in its session.
	Lineage int
	// Rules are those of its model.
	Rules cachemodel.Rules
	// Lifetime is that of its cached prefix.
	Lifetime time.Duration
	// Long tells that it is the long one, or that the client has chosen one.
	Long bool
	// Prompt is the length of the prompt, in tokens.
	Prompt int64
	// Tool tells that the answer asks for tools, Question that it ends in a
	// question.
	Tool, Question bool
	// Prompts is the number of prompts of a person, Pauses that of the pauses
	// longer than the lifetime so far.
	Prompts, Pauses int
	// Cold is what the planner expects to gain more if it finds the cache cold:
	// history is then folded for nothing. In uncached input tokens.
	Cold float64
	// Spent is what the conversation has cost, and Kept what pings have saved in
	// it, less what they cost.
	Spent, Kept float64
}

// Continues returns the number of the conversation that the request takes up
// again; false where it begins one.
func (x *Exchange) Continues() (lineage int, ok bool) {
	if x.match.Lineage == nil {
		return 0, false
	}
	return x.match.Lineage.ID(), true
}

// Start is when the request began, by the clock it was given.
func (x *Exchange) Start() time.Time { return x.start }

// Rules are the cache rules in force for the request.
func (x *Exchange) Rules() cachemodel.Rules { return x.rules }

// Committed returns the number of the conversation that Commit made the request
// part of; false before, or if it was not committed.
func (x *Exchange) Committed() (int, bool) {
	if x.lineage == nil {
		return 0, false
	}
	return x.lineage.ID(), true
}

// Replaced returns the conversations of the session in whose place one has
// begun with this request: the client has summed up its history, or begun
// anew. Sub-agents do not count; they have tools of their own.
func (x *Exchange) Replaced() (lineages []int) {
	if x.lineage == nil || x.match.Lineage != nil || !x.view.OffersTools() {
		return nil
	}
	x.session.Lock()
	defer x.session.Unlock()
	return x.session.SameTools(x.lineage)
}

// cold is what the planner would gain more by finding the cache cold. The
// session is locked.
func (x *Exchange) cold(l *sessioncache.Lineage, tool bool) float64 {
	if x.Policy == Observe || x.Policy == Eager || x.frozen {
		return 0
	}
	f := *x.frame
	f.loop = tool
	q := newPlanning()
	defer q.release()
	q.in.Moment = planner.Moment{Epoch: planner.NoEpoch, Loop: tool, Bound: f.bound, Begun: true}
	q.in.Further = expect(x.session, x.view, l)
	q.gather(&f, l, minFold, x.start)
	q.in.Warm = 0
	cold := planner.Gain(&q.in, &q.scratch)
	q.in.Warm = len(f.Blocks)
	return max(0, cold-planner.Gain(&q.in, &q.scratch))
}

// Idle describes the conversation once Commit was called. It reports false
// where keeping the cache gains nothing for certain: side requests and
// sub-agents, requests for a summary, conversations that never read from the
// cache, and providers whose caches a request does not keep alive.
func (x *Exchange) Idle(t *wire.Turn) (Idle, bool) {
	if x.lineage == nil || x.rules.Regime != cachemodel.Markers || !x.view.OffersTools() || compacts(x.view) {
		return Idle{}, false
	}
	x.session.Lock()
	defer x.session.Unlock()
	l := x.lineage
	if l.Requests < 2 || l.Total.Read == 0 || t.Usage.Prompt() == 0 || !x.session.Main(l) {
		return Idle{}, false
	}
	long := history.LongMarker(x.frame.View)
	lifetime := l.TTL
	if lifetime == 0 {
		lifetime = x.rules.Lifetime(long)
	}
	prompts := 0
	if n := len(l.States); n > 0 {
		prompts = int(l.States[n-1].Task)
	}
	tool := len(t.Calls) > 0
	return Idle{
		Cold:    x.cold(l, tool),
		Lineage: l.ID(), Rules: x.rules, Lifetime: lifetime, Long: long,
		Prompt: t.Usage.Prompt(), Tool: tool, Question: asks(t.Text),
		Prompts: prompts, Pauses: l.Pauses, Spent: l.Spent, Kept: l.Kept,
	}, true
}

// asks tells whether a text ends in a question.
func asks(text string) bool {
	const end = 200
	return strings.Contains(text[max(0, len(text)-end):], "?")
}

// Kept notes what the pings in the pause before this request have saved, less
// what they cost.
func (x *Exchange) Kept(net float64) {
	x.session.Lock()
	defer x.session.Unlock()
	if x.lineage != nil {
		x.lineage.Kept += net
	}
}
