// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package sessionstore is the session store of one process. Sessions live in memory, and their
// durable copy can move while they are in use.
package sessionstore

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Store keeps sessions in memory, and optionally in one durable place.
type Store struct {
	*sessioncache.Memory

	mu    sync.RWMutex // read-locked while the place is in use
	place Place
	names secret.Key
	keeps atomic.Bool // the place has a Durable
}

// Place is a durable place of sessions.
type Place struct {
	// Name identifies the place.
	Name string
	// Durable writes to the place. It is built over the memory of the store. Nil for memory only.
	Durable *sessioncache.Durable
}

var (
	_ sessioncache.Budgeted = (*Store)(nil)
	_ sessioncache.Claimer  = (*Store)(nil)
)

// Open opens a store in memory. Move adds a durable place.
func Open(o sessioncache.MemoryOptions) (*Store, error) {
	m, err := sessioncache.NewMemory(o)
	if err != nil {
		return nil, err
	}
	return &Store{Memory: m}, nil
}

// Place returns the durable place of the sessions.
func (s *Store) Place() Place {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.place
}

// Names returns the key for tenant names. It stays the same as long as sessions are in memory. It
// is the key that the place was first used with, or else first.
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

// Move changes the durable place. The sessions in memory are copied to the new place, and pending
// writes to the old one are finished.
func (s *Store) Move(to Place) error {
	s.mu.Lock() // waits for requests that use the place
	before := s.place
	s.place = to
	s.keeps.Store(to.Durable != nil)
	if to.Durable != nil && s.names != (secret.Key{}) && s.Memory.Stats().Sessions == 0 {
		s.names = to.Durable.Names(s.names) // the memory is empty, so no name depends on the old key
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

// OnEvict calls f with each session that gives way for want of memory, and is not kept elsewhere.
func (s *Store) OnEvict(f func(*sessioncache.Session)) {
	s.Memory.OnEvict(func(x *sessioncache.Session) {
		if !s.keeps.Load() {
			f(x)
		}
	})
}

// in calls f with the current store. The place does not change until f returns.
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

// visit is the store in the life of one request.
type visit struct {
	*Store

	mu sync.Mutex
	of *sessioncache.Durable
	as sessioncache.Store // the request's view of the durable store
}

// ForRequest implements [sessioncache.Budgeted]. Memory alone never blocks, and needs no budget.
func (s *Store) ForRequest() sessioncache.Store {
	if s.Place().Durable == nil {
		return s
	}
	return &visit{Store: s}
}

// now returns the request's view of the store s. The caller must keep the place from changing.
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
