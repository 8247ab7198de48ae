// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package sessionstore is the store of one process: its sessions are in memory, and where they are
// kept besides can change while they are used.
package sessionstore

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Store keeps sessions in memory, and in one place besides, if in any.
type Store struct {
	*sessioncache.Memory

	mu    sync.RWMutex // held for reading while the place is used
	place Place
	names secret.Key
	keeps atomic.Bool // the place has a Durable
}

// Place is where sessions are kept besides.
type Place struct {
	// Name tells it from others.
	Name string
	// Durable keeps them there. It is over the memory of the store. Nil for nowhere.
	Durable *sessioncache.Durable
}

var (
	_ sessioncache.Budgeted = (*Store)(nil)
	_ sessioncache.Claimer  = (*Store)(nil)
)

// Open opens a store whose sessions are in memory only, until it is moved.
func Open(o sessioncache.MemoryOptions) (*Store, error) {
	m, err := sessioncache.NewMemory(o)
	if err != nil {
		return nil, err
	}
	return &Store{Memory: m}, nil
}

// Place is where the sessions are kept besides.
func (s *Store) Place() Place {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.place
}

// Names returns the key that tenants are told apart by, as long as there are sessions in
// memory: the one that the place was first used with, or else one that it is given.
func (s *Store) Names(first secret.Key) secret.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == (secret.Key{}) {
		s.names = first
		if d := s.place.Durable; d != nil {
			s.names = d.Names(first)
		}
	}
	return s.names
}

// Move has the sessions kept elsewhere from now on: those in memory come to lie there, and
// what waits to be written where they were before is written.
func (s *Store) Move(to Place) error {
	s.mu.Lock() // which waits for those who use the place
	before := s.place
	s.place = to
	s.keeps.Store(to.Durable != nil)
	if to.Durable != nil && s.names != (secret.Key{}) && s.Memory.Stats().Sessions == 0 {
		s.names = to.Durable.Names(s.names) // nothing here has names yet
	}
	names := s.names
	s.mu.Unlock()
	if to.Durable != nil && names != (secret.Key{}) {
		to.Durable.Take(names)
	}
	if before.Durable == nil {
		return nil
	}
	return before.Durable.Close()
}

// OnEvict has f called with each session that gives way for want of memory, and is not kept
// elsewhere.
func (s *Store) OnEvict(f func(*sessioncache.Session)) {
	s.Memory.OnEvict(func(x *sessioncache.Session) {
		if !s.keeps.Load() {
			f(x)
		}
	})
}

// in calls f with the store as it is at the moment, which does not change meanwhile.
func (s *Store) in(f func(sessioncache.Store)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.place.Durable == nil {
		f(s.Memory)
		return
	}
	f(s.place.Durable)
}

// Acquire implements [sessioncache.Store].
func (s *Store) Acquire(k sessioncache.Key) (found *sessioncache.Session) {
	s.in(func(now sessioncache.Store) { found = now.Acquire(k) })
	return found
}

// Hold implements [sessioncache.Store].
func (s *Store) Hold(x *sessioncache.Session) { s.in(func(now sessioncache.Store) { now.Hold(x) }) }

// Release implements [sessioncache.Store].
func (s *Store) Release(x *sessioncache.Session) {
	s.in(func(now sessioncache.Store) { now.Release(x) })
}

// Find implements [sessioncache.Store].
func (s *Store) Find(id string) (found *sessioncache.Session) {
	s.in(func(now sessioncache.Store) { found = now.Find(id) })
	return found
}

// Delete implements [sessioncache.Store].
func (s *Store) Delete(id string) (gone *sessioncache.Session) {
	s.in(func(now sessioncache.Store) { gone = now.Delete(id) })
	return gone
}

// Stats implements [sessioncache.Store].
func (s *Store) Stats() (st sessioncache.StoreStats) {
	s.in(func(now sessioncache.Store) { st = now.Stats() })
	return st
}

// Claim implements [sessioncache.Claimer].
func (s *Store) Claim(x *sessioncache.Session, m sessioncache.Match, v *wire.View, states []sessioncache.BlockState, as func(*sessioncache.Lineage)) bool {
	return (&visit{Store: s}).Claim(x, m, v, states, as)
}

// Close implements [sessioncache.Store].
func (s *Store) Close() error { return errors.Join(s.Move(Place{}), s.Memory.Close()) }

// visit is the store as one request uses it.
type visit struct {
	*Store

	mu sync.Mutex
	of *sessioncache.Durable
	as sessioncache.Store // what it is to the request
}

// ForRequest implements [sessioncache.Budgeted]. Memory alone is waited for by nobody.
func (s *Store) ForRequest() sessioncache.Store {
	if s.Place().Durable == nil {
		return s
	}
	return &visit{Store: s}
}

// now is the store as the request uses it at the moment. The place is not to change meanwhile.
func (v *visit) now(s sessioncache.Store) sessioncache.Store {
	d, ok := s.(*sessioncache.Durable)
	if !ok {
		return s
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.of != d {
		v.of, v.as = d, d.ForRequest()
	}
	return v.as
}

// Acquire implements [sessioncache.Store].
func (v *visit) Acquire(k sessioncache.Key) (found *sessioncache.Session) {
	v.in(func(s sessioncache.Store) { found = v.now(s).Acquire(k) })
	return found
}

// Claim implements [sessioncache.Claimer].
func (v *visit) Claim(x *sessioncache.Session, m sessioncache.Match, of *wire.View, states []sessioncache.BlockState, as func(*sessioncache.Lineage)) (won bool) {
	v.in(func(s sessioncache.Store) {
		c, ok := v.now(s).(sessioncache.Claimer)
		won = !ok || c.Claim(x, m, of, states, as)
	})
	return won
}
