// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Budgeted is a [Store] that may have to be waited for.
type Budgeted interface {
	Store
	// ForRequest returns the store as one request uses it: all that the request waits
	// for it is within one budget.
	ForRequest() Store
}

// ForRequest returns a store as one request uses it.
func ForRequest(s Store) Store {
	if b, ok := s.(Budgeted); ok {
		return b.ForRequest()
	}
	return s
}

// visit is a durable store as one request uses it.
type visit struct {
	*Durable
	patience *Patience
}

var (
	_ Budgeted  = (*Durable)(nil)
	_ Claimer   = visit{}
	_ Publisher = visit{}
)

// ForRequest implements Budgeted.
func (d *Durable) ForRequest() Store { return visit{d, d.breaker.Patience()} }

// Acquire implements Store.
func (v visit) Acquire(k Key) *Session { return v.acquireIn(v.patience, k) }

// Claim implements Claimer.
func (v visit) Claim(s *Session, m Match, of *wire.View, states []BlockState, as func(*Lineage)) bool {
	return v.claimIn(v.patience, s, m, of, states, as)
}
