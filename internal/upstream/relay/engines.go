// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"sync"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/memory"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/delta"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/socket"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/threads"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Retained tracks the conversations of a state that upstreams retain.
type Retained struct {
	memory *lru.Pool[sessioncache.Tenant]
	now    func() time.Time
	byLife shared.Pool[*Engines]
}

// Interface guards
var (
	_ state.Holder    = (*Retained)(nil)
	_ state.Forgetter = (*Retained)(nil)
)

// Of returns the part of a state.
func Of(s *state.State) *Retained {
	return state.Part(s, func() *Retained {
		return &Retained{
			memory: lru.NewPool[sessioncache.Tenant](memory.Of(s.Instance).Share(memory.Retained)),
			now:    s.Clock.Now,
		}
	})
}

// Share takes a share of the engines with the lifetime of options.
func (r *Retained) Share(o *Options) (*shared.Share[*Engines], error) {
	return r.byLife.Share(o.Life().String(), func() (*Engines, error) {
		return &Engines{memory: r.memory, life: o.Life(), now: r.now, opened: map[string]engine{}}, nil
	})
}

// Budget implements [state.Holder].
func (*Retained) Budget() memory.Part { return memory.Retained }

// Bytes implements [state.Holder].
func (r *Retained) Bytes() int64 { return r.memory.Bytes() }

// SetLimit implements [state.Holder].
func (r *Retained) SetLimit(n int64) { r.memory.SetLimit(n) }

// Forget forgets a tenant's answer wherever it is retained.
func (r *Retained) Forget(s retain.Side, id string) {
	for _, e := range r.byLife.All() {
		e.each(func(e engine) { e.Forget(s, id) })
	}
}

// ForgetSession implements [state.Forgetter].
func (r *Retained) ForgetSession(x *sessioncache.Session) {
	for _, e := range r.byLife.All() {
		e.each(func(e engine) { e.ForgetSession(x.Tenant(), x.ID()) })
	}
}

// engine is a [retain.Engine] or a [threads.Book].
type engine interface {
	Forget(s retain.Side, id string)
	ForgetSession(t sessioncache.Tenant, session string)
	Clear()
}

// Engines are the engines of all drivers with one lifetime. They outlive the configurations that
// use them.
type Engines struct {
	shared.Pins
	memory *lru.Pool[sessioncache.Tenant]
	life   time.Duration
	now    func() time.Time

	mu     sync.Mutex
	opened map[string]engine // by driver
}

// Open returns the engine towards an origin for options, nil where there is none.
func (e *Engines) Open(o *Options) *retain.Engine {
	if o == nil || !o.Origin {
		return nil
	}
	return e.Of(delta.NewEdge())
}

// threadLife is the time for which the Messages API certainly keeps an unused thread.
const threadLife = 5 * time.Minute

// Threads returns the engine for conversations that providers keep in a format, and the book of the
// clients' own; nil if no provider keeps any.
func (e *Engines) Threads(f wire.Format) (*retain.Engine, *threads.Book) {
	if !threads.Kept(f) {
		return nil, nil
	}
	book := opened(e, "book", func() *threads.Book { return threads.NewBook(e.memory, e.life, e.now) })
	life := e.life
	if f.Traits().Threads {
		life = min(life, threadLife)
	}
	return opened(e, string(f), func() *retain.Engine { return retain.New(threads.NewDriver(f), e.memory, life, e.now) }),
		book
}

// Sockets returns the engine for conversations that providers keep with a connection.
func (e *Engines) Sockets() *retain.Engine { return e.Of(socket.NewDriver()) }

// Of returns the engine of a driver.
func (e *Engines) Of(d retain.Driver) *retain.Engine {
	return opened(e, d.Name(), func() *retain.Engine { return retain.New(d, e.memory, e.life, e.now) })
}

func opened[T engine](e *Engines, name string, open func() T) T {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.opened[name] == nil {
		e.opened[name] = open()
	}
	return e.opened[name].(T)
}

func (e *Engines) each(f func(engine)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, o := range e.opened {
		f(o)
	}
}

// Close implements [shared.Value].
func (e *Engines) Close() error {
	e.each(engine.Clear)
	return nil
}
