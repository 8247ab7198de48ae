// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"math"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// request is the state of one request on its way through the stages.
type request struct {
	content.History
	o       *Options
	rules   pricing.Rules
	session *sessioncache.Session

	cached  cached
	run     run
	orders  orders
	ledger  ledger
	marking marking
	// translated reports that the request goes upstream in another format.
	translated bool
	zones      content.Zones
	thoughts   thoughts
	// lost reports that what was said on the way to the client's last message could
	// not be put back. It lies where it takes no room.
	lost     bool
	omission omission
	offer    offer

	// regretted is what was folded and missed.
	regretted Misses
}

// thoughts is what has to be known of the model's thinking.
type thoughts struct {
	// bound reports whether what the model has thought is bound to what stood
	// before it: by the provider's checks, or because it is left out otherwise.
	bound bool
	// sealed reports whether thinking goes upstream as reasoning items of the
	// Responses API, and is treated as they are: what was sent is sent again.
	sealed bool
}

// omission is which words are left out, and of what.
type omission struct {
	// words says which texts words are left out of, nil for none; wanted are those
	// of which it is not known yet which words, and took is how long it took for
	// those that are shortened now.
	words  *Compress
	wanted []int
	took   time.Duration
}

// offer is which tools the request goes out with besides its own.
type offer struct {
	// tools are those that a request for a summary left out, nil for none.
	tools []byte
	// expand says what is done about the expand tool, without that the conversation
	// goes on without it.
	expand  expandTool
	without bool
	// bounds are the upstream's for tools; flat reports that the tools of a namespace
	// count there, because the request is translated.
	bounds wire.ToolBounds
	flat   bool
}

// marking is where cache markers go.
type marking struct {
	// at is the end of the cache entry that a fold in this request builds on,
	// and stake the place from which the next fold is expected to begin.
	at, stake int
	// long reports that the client's markers go out with the long lifetime.
	long bool
	// translated reports that the request's translation marks its end, whatever is edited.
	translated bool
}

func newRequest(r *request, o *Options, rules pricing.Rules, v *wire.View, s *sessioncache.Session, m sessioncache.Match, sealed bool, now time.Time) *request {
	*r = request{
		History: content.History{View: v, Blocks: v.MessageBlocks(), Known: m.Common, Learned: m.Common},
		o:       o, rules: rules, session: s, run: findRun(v), ledger: ledger{broken: math.MaxInt32}, zones: content.NewZones(v, *o.Zones.Frozen, *o.Zones.Hot, *o.Zones.MinMessages), thoughts: thoughts{sealed: sealed},
	}
	l := m.Lineage
	var known []sessioncache.BlockState
	if l != nil {
		known = l.States[:min(m.Common, len(l.States))]
	}
	r.States = sessioncache.NewBlockStates(len(r.Blocks), known...)
	r.thoughts.bound = rules.BindsThinking || rules.BindsReasoning && r.lastReasoning() >= 0
	r.run.answer = r.LastAnswer()
	r.cached = newCached(&r.History, &rules, s, l, now)
	if l == nil {
		return r
	}
	if l.Restored() {
		r.Learned = 0
	}
	only := o.Policy == Observe
	if l.Observed != only || only && !l.Departed {
		// What was only observed was never sent, and the other way round. Nor is it
		// known in the next process what the upstream would hold of it.
		for i := range known {
			r.States[i].Edit = nil
		}
	}
	if l.Observed != only {
		r.cached.settled, r.ledger.turned = 0, true
	}
	return r
}
