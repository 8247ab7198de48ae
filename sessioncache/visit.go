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

package sessioncache

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/block"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/breaker"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
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
	patience *breaker.Patience
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
func (v visit) Claim(s *Session, m Match, of *wire.View, states []block.State, as func(*Lineage)) bool {
	return v.claimIn(v.patience, s, m, of, states, as)
}
