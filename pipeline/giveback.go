// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// giveBack appends folded texts that the agent is about to need to the newest result. Under observe
// it is computed, too, because it reduces the saving.
func (r *request) giveBack(l *sessioncache.Lineage) {
	if l == nil || r.o.Planner.GiveBack != nil && !*r.o.Planner.GiveBack || !r.View.OffersTools() {
		return
	}
	further, prices := furtherRequests(r.session, r.View, l), plannerPrices(&r.rules, l)
	e := newEstimator(&r.session.Calibration, l)
	s := restoreSearch{History: &r.History, Name: r.stubName, Worth: func(bytes int, chance float64) bool {
		return planner.Returns(e.Tokens(wire.KindToolResult, bytes), chance, further, prices, *r.o.Planner.Harm)
	}}
	if i, value := s.Edit(max(r.Known, r.cached.forwarded)); i >= 0 {
		r.set(i, stage.GiveBack, wire.OpReplace, value)
	}
}
