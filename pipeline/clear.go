// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// orders holds the client's instructions for a long history (context management).
type orders struct {
	given wire.Management
	// ours reports whether the pipeline carries them out, because the upstream does not.
	ours bool
}

// clear carries out the client's orders if the upstream does not.
func (r *request) clear(l *sessioncache.Lineage) {
	if !r.orders.ours {
		return
	}
	editCleared(&r.History, &r.orders.given, newEstimator(&r.session.Calibration, l).Tokens, func(i int, op wire.Op, value []byte) {
		r.set(i, stage.Clearing, op, value)
	})
	if r.rules.BindsThinking {
		r.bindThinking()
	}
}

// ordered is the decision for a request with orders: no other edit removes history.
func (r *request) ordered() planner.Decision {
	return planner.Decision{Epoch: planner.NoEpoch, Reason: "the client says what is cleared", Folded: len(r.ledger.fresh)}
}

// applied sums up the blocks cleared on the client's order, nil if the client expects no report.
// The session is locked.
func (r *request) applied(l *sessioncache.Lineage) *wire.Cleared {
	if !r.orders.ours || r.orders.given.Results == nil && r.orders.given.Thinking == 0 || r.o.Policy == Observe {
		return nil
	}
	c := sumCleared(&r.History, newEstimator(&r.session.Calibration, l).Tokens)
	return &c
}
