// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Budgeted is a [Store] that requests may have to wait for.
type Budgeted interface {
	Store
	// ForRequest returns the store for one request, with one budget for all waits of the request.
	ForRequest() Store
}

// ForRequest returns the store for one request, see [Budgeted].
func ForRequest(s Store) Store {
	if b, ok := s.(Budgeted); ok {
		return b.ForRequest()
	}
	return s
}

// visit is a durable store in the use of one request.
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
