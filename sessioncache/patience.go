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
	"context"
	"fmt"
	"sync/atomic"
	"time"

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

// patience is how long somebody may still wait for the backend.
type patience struct{ left atomic.Int64 }

func (d *Durable) patience() *patience {
	p := new(patience)
	p.left.Store(int64(d.o.Budget))
	return p
}

// rest is what is left of it, never less than nothing.
func (p *patience) rest() time.Duration { return time.Duration(max(p.left.Load(), 0)) }

// wait waits until something is done, or there is no patience left.
func (p *patience) wait(done <-chan struct{}) {
	left := p.rest()
	if left == 0 {
		return
	}
	begun := time.Now()
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	p.left.Add(-int64(time.Since(begun)))
}

// within does something with the backend. Who runs out of patience does not wait for the
// end of it; what takes longer than the budget has failed.
func (d *Durable) within(p *patience, what string, f func(context.Context) error) {
	if d.rests() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), d.o.Budget)
	inTime := context.AfterFunc(ctx, func() { d.failed(what, context.DeadlineExceeded) })
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		var err error
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("%w: %T", errPanicked, p)
			}
			if inTime() && err != nil {
				d.failed(what, err)
			}
		}()
		err = f(ctx)
	}()
	p.wait(done)
}

// visit is a durable store as one request uses it.
type visit struct {
	*Durable
	patience *patience
}

var (
	_ Budgeted  = (*Durable)(nil)
	_ Claimer   = visit{}
	_ Publisher = visit{}
)

// ForRequest implements Budgeted.
func (d *Durable) ForRequest() Store { return visit{d, d.patience()} }

// Acquire implements Store.
func (v visit) Acquire(k Key) *Session { return v.acquireIn(v.patience, k) }

// Claim implements Claimer.
func (v visit) Claim(s *Session, m Match, of *wire.View, states []State, as func(*Lineage)) bool {
	return v.claimIn(v.patience, s, m, of, states, as)
}

// Publish implements Publisher.
func (v visit) Publish(s *Session) { v.publishIn(v.patience, s) }
