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

// request is the state of one request in the stages.
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
	// translated reports that the request is sent in another format.
	translated bool
	zones      content.Zones
	thoughts   thoughts
	// lost reports that intercepted calls of the client's last message could not be put back. The
	// field is here to fill padding.
	lost     bool
	omission omission
	offer    offer

	// regretted holds the missed folds.
	regretted Misses
}

// thoughts describes the model's thinking.
type thoughts struct {
	// bound reports whether thinking is bound to the blocks before it: the provider checks it, or
	// drops it after a change.
	bound bool
	// sealed reports whether thinking is sent as reasoning items of the Responses API. Like these,
	// it is always sent again.
	sealed bool
}

// omission is the state of the stage compress.
type omission struct {
	// words configures the stage, nil for none. wanted are the texts without a known short form.
	// took is the compression time of the texts shortened now.
	words  *Compress
	wanted []int
	took   time.Duration
}

// offer holds the tools added to the request.
type offer struct {
	// tools are the conversation's tools for a request for a summary, nil for none.
	tools []byte
	// expand says how the request handles the expand tool. without says that the conversation goes
	// on without the tool.
	expand  expandTool
	without bool
	// bounds are the upstream's limits for tools. flat reports that the tools of a namespace count
	// separately, because the request is translated.
	bounds wire.ToolBounds
	flat   bool
}

// marking holds the positions of cache markers.
type marking struct {
	// at is the end of the cache entry that this request's fold builds on. stake is the expected
	// start of the next fold.
	at, stake int
	// long reports that the client's markers are sent with the long lifetime.
	long bool
	// possible reports that the request may get markers. translated reports that the translation
	// marks its end.
	possible, translated bool
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
	// A snapshot does not contain all facts about the blocks: learn them again.
	if l.Restored() {
		r.Learned = 0
	}
	only := o.Policy == Observe
	if l.Observed != only || only && !l.Departed {
		// Edits that were only observed were never sent, and the reverse. A restarted process does
		// not know the upstream's cache for them either.
		for i := range known {
			r.States[i].Edit = nil
		}
	}
	if l.Observed != only {
		r.cached.settled, r.ledger.turned = 0, true
	}
	return r
}
