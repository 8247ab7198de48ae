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
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/cachemodel"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// Pipeline runs the stages over requests. It holds no state of its own and may
// be used from several goroutines.
type Pipeline struct {
	// Target tells in which format the upstream gets what comes in another. Default:
	// as it comes.
	Target func(client wire.Format) wire.Format

	options Options
	rules   func(model string, at time.Time) cachemodel.Rules
	stages  []func(*frame)
}

// New makes a pipeline. The rules say, for the model of a request, what its
// upstream's prefix cache does and costs.
func New(o Options, rules func(model string, at time.Time) cachemodel.Rules) *Pipeline {
	p := &Pipeline{options: o.WithDefaults(), rules: rules}
	if p.options.Policy == Eager {
		p.stages = []func(*frame){
			(*frame).prune,
			(*frame).compactToolResults,
			(*frame).prune, // again, for what rides along with the edits made since
			(*frame).stripNarration,
			(*frame).stripThinking,
			(*frame).bindThinking,
		}
	} else {
		p.stages = []func(*frame){
			(*frame).stripNarration,
			(*frame).bindThinking,
		}
	}
	return p
}

// Begin decides about a request. It never fails: where nothing can or should be
// edited, the exchange's body is the client's own. Exactly one of
// [Exchange.Commit] and [Exchange.Abandon] must follow.
func (p *Pipeline) Begin(v *wire.View, s *sessioncache.Session, now time.Time) *Exchange {
	s.Lock()
	defer s.Unlock()
	m := s.Match(v)
	rules := p.rules(v.Model, now)
	x := &Exchange{Body: v.Raw, Policy: p.options.Policy, view: v, session: s, match: m, start: now, rules: rules, Lineage: m.Lineage.ID()}
	f := newFrame(&p.options, rules, v, s, m, now)
	f.sealed = p.Target != nil && v.Format != wire.OpenAIResponses && p.Target(v.Format) == wire.OpenAIResponses
	f.bound = f.bound || rules.BindsReasoning && f.lastReasoning() >= 0
	f.page = openPage()
	defer f.closePage()
	if !v.Partial {
		f.declare(m)
		f.weave(m)
	}
	if v.Partial || m.Lineage != nil && m.Lineage.Frozen {
		f.learn()
		f.keep(m)
		x.frozen = !v.Partial
		if v.Partial {
			x.Decision = Decision{Epoch: NoEpoch, Reason: "the provider holds the history"}
		}
		x.settle(f, nil)
		return x
	}
	f.learn()
	f.admit()
	if p.options.Policy != Eager {
		x.Decision = f.plan(&planner{lineage: m.Lineage, calibration: &s.Calibration, now: now, rate: rate(m.Lineage)})
	}
	for _, stage := range p.stages {
		stage(f)
	}
	f.long = f.lengthens(m.Lineage)
	markers := f.breakpoints()
	x.settle(f, markers)
	return x
}

// keep takes every edit back but those that thinking has seen: where it is bound
// to its past, the original would be refused as well.
func (f *frame) keep(m sessioncache.Match) {
	for i := range f.states {
		e := f.states[i].Edit
		f.states[i].Edit = nil
		if l := m.Lineage; f.rules.BindsThinking && l != nil && !l.Observed {
			if i < min(m.Common, len(l.States)) {
				f.states[i].Edit = l.States[i].Edit
			} else if e != nil && e.Stage == stageExpand {
				f.states[i].Edit = e
			}
		}
	}
	f.fresh = nil
	f.unweave(m)
}

// edits lists what to do with the bytes: the ledger of this request and the
// markers.
func (f *frame) edits(markers []wire.Edit) []wire.Edit {
	n := 0
	for i := range f.states {
		if f.states[i].Edit != nil {
			n++
		}
	}
	edits := make([]wire.Edit, 0, n+len(markers)+1)
	for i := range f.states {
		if e := f.states[i].Edit; e != nil {
			edits = append(edits, wire.Edit{Block: f.view.System + i, Op: e.Op, Value: e.Value})
		}
	}
	return f.woven(append(f.lengthened(edits), markers...))
}
