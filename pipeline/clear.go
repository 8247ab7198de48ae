// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// orders is what the client has ordered to be done about its long history.
type orders struct {
	given wire.Management
	// ours reports whether it is for us to do, because the upstream does not.
	ours bool
}

// clear carries out what is ordered, if it is for us to do.
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

// ordered is the decision where the client has said itself what the model is to read of its
// history: nothing else is taken out of it.
func (r *request) ordered() planner.Decision {
	return planner.Decision{Epoch: planner.NoEpoch, Reason: "the client says what is cleared", Folded: len(r.ledger.fresh)}
}

// applied is what is cleared in the request on the client's order, by us; nil where there
// is nothing to tell it. The session is locked.
func (r *request) applied(l *sessioncache.Lineage) *wire.Cleared {
	if !r.orders.ours || r.orders.given.Results == nil && r.orders.given.Thinking == 0 || r.o.Policy == Observe {
		return nil
	}
	c := sumCleared(&r.History, newEstimator(&r.session.Calibration, l).Tokens)
	return &c
}
