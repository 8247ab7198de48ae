// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package state is an open session store, with everything that belongs to its sessions. It outlives reloads.
package state

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/page"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/clock"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/memory"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/selfrequest"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/originals"
)

// Share is a configuration's share of a state.
type Share = shared.Share[*State]

// PoolOf returns the states of an instance.
func PoolOf(i *shared.Instance) *shared.Pool[*State] { return shared.PoolOf[*State](i) }

// Open returns the states that the configurations of an instance use.
func Open(i *shared.Instance) []*State { return PoolOf(i).All() }

// State is an open session store, and the parts that features have of it, see [Part].
type State struct {
	shared.Pins
	*sessioncache.Store
	// Instance is the Caddy of the state.
	Instance *shared.Instance
	// Blocks are the folded texts, and Folder is the folder of their files.
	Blocks *originals.Store
	// Folder: see Blocks.
	Folder string
	// Sender takes internal requests through the sites in force.
	Sender selfrequest.Sender
	// Secret distinguishes tenants, unless the store has another key. Default: random.
	Secret secret.Key
	// Clock is the clock of all parts.
	Clock clock.Clock
	// OnClose is called once the state has closed. Optional.
	OnClose func()

	originals *lru.Pool[sessioncache.Tenant]
	budget    atomic.Int64 // of memory

	making sync.Mutex // locked while a part is made
	mu     sync.Mutex
	parts  []any

	naming  sync.Once
	tenants atomic.Pointer[tenant.Key]
}

// New returns a state that keeps folded texts in files, too, if there are any.
func New(i *shared.Instance, store *sessioncache.Store, files *originals.Files, c clock.Clock) *State {
	budget := memory.Of(i)
	s := &State{
		Store: store, Instance: i, Clock: c,
		originals: lru.NewPool[sessioncache.Tenant](budget.Share(memory.Originals)),
	}
	s.Blocks = originals.New(s.originals, files, c.Now)
	_, _ = rand.Read(s.Secret[:]) // never fails
	store.OnEvict(s.detach)
	s.SetBudget(budget.Bytes())
	return s
}

// The interfaces that a part may implement.
type (
	// Forgetter drops its state of a session that was deleted or evicted.
	Forgetter interface {
		ForgetSession(x *sessioncache.Session)
	}
	// Stopper ends its background work. It is called when no configuration is left, and
	// may be called again.
	Stopper interface{ Stop() }
	// Holder takes memory, which takes a part of the budget.
	Holder interface {
		Budget() memory.Part
		Bytes() int64
		SetLimit(n int64)
	}
	// Viewer adds to the live page.
	Viewer interface{ View(v *page.View) }
	// Reporter adds a member to the report on a session, nil for none.
	Reporter interface {
		ReportSession(x *sessioncache.Session) (name string, report any)
	}
	// Learner learns from the records of earlier turns.
	Learner interface {
		Learn(ctx context.Context, from audit.Source) error
	}
)

// Part returns a feature's part of a state, by its type. The first call makes it, and may not ask
// for another part meanwhile.
func Part[T any](s *State, make func() T) T {
	s.making.Lock()
	defer s.making.Unlock()
	for p := range Parts[any](s) {
		if reflect.TypeOf(p) == reflect.TypeFor[T]() {
			return p.(T)
		}
	}
	// making is locked, so make may not ask for another part.
	p := make()
	if h, ok := any(p).(Holder); ok {
		h.SetLimit(h.Budget().Of(s.budget.Load()))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts = append(s.parts, p)
	return p
}

// Parts yields the parts of a state that implement an interface.
func Parts[I any](s *State) iter.Seq[I] {
	s.mu.Lock()
	all := slices.Clip(s.parts) // which only grows
	s.mu.Unlock()
	return func(yield func(I) bool) {
		for _, p := range all {
			if i, ok := p.(I); ok && !yield(i) {
				return
			}
		}
	}
}

// Tenants tells tenants apart, in the same way as long as there are sessions.
func (s *State) Tenants() *tenant.Key {
	s.naming.Do(s.RefreshTenants)
	return s.tenants.Load()
}

// RefreshTenants takes over the key of the store, if that has one.
func (s *State) RefreshTenants() {
	names := s.Names(s.Secret)
	if now := s.tenants.Load(); now == nil || now.Secret != names {
		s.tenants.Store(&tenant.Key{Secret: names})
	}
}

// detach forgets everything in memory that belongs to a session.
func (s *State) detach(x *sessioncache.Session) {
	// These are pings with the credential, overlays, retained prompts, agents and responses. The prefixes of prompts
	// stay, which conversations of a tenant share.
	for p := range Parts[Forgetter](s) {
		p.ForgetSession(x)
	}
	s.Blocks.Evict(x)
}

// Forget forgets everything that belongs to a deleted session, in memory and on disk.
func (s *State) Forget(x *sessioncache.Session) {
	s.detach(x)
	s.Blocks.Forget(x)
}

// SetBudget gives each part its share of a memory budget. Entries beyond a smaller share give way
// at once, in the order in which they would anyway.
func (s *State) SetBudget(budget int64) {
	s.budget.Store(budget)
	s.SetMaxBytes(memory.Sessions.Of(budget))
	s.originals.SetLimit(memory.Originals.Of(budget))
	for p := range Parts[Holder](s) {
		p.SetLimit(p.Budget().Of(budget))
	}
}

// Used returns the memory that a part of the budget takes here.
func (s *State) Used(part memory.Part) (sum int64) {
	switch part {
	case memory.Sessions:
		return s.Stats().Bytes
	case memory.Originals:
		return s.originals.Bytes()
	}
	for p := range Parts[Holder](s) {
		if p.Budget() == part {
			sum += p.Bytes()
		}
	}
	return sum
}

// Rest ends internal requests and other background work: no configuration is left.
func (s *State) Rest() {
	s.Sender.Stop()
	for p := range Parts[Stopper](s) {
		p.Stop()
	}
}

// Close implements [shared.Value].
func (s *State) Close() error {
	s.Rest()
	err := errors.Join(s.Blocks.Close(), s.Store.Close())
	if s.OnClose != nil {
		s.OnClose()
	}
	return err
}
