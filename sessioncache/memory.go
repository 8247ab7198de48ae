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
	"fmt"
	"sync"
	"time"

	"github.com/dgraph-io/ristretto/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// Defaults of the memory store.
const (
	// DefaultMaxBytes is the default of [MemoryOptions.MaxBytes].
	DefaultMaxBytes = 640 << 20
	// DefaultIdleTTL is the default of [MemoryOptions.IdleTTL].
	DefaultIdleTTL = 3 * time.Hour
	// MinMaxBytes is the smallest bound accepted.
	MinMaxBytes = 1 << 20
)

// MemoryOptions configure a memory store.
type MemoryOptions struct {
	// MaxBytes bounds the memory of all sessions together. Beyond it those
	// not used for longest are forgotten. Default: 640 MiB: ten thousand conversations of a hundred turns.
	MaxBytes int64
	// IdleTTL is how long a session is remembered after its last request.
	// Default: 3 hours.
	IdleTTL time.Duration
}

func (o *MemoryOptions) defaults() error {
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.IdleTTL == 0 {
		o.IdleTTL = DefaultIdleTTL
	}
	if o.MaxBytes < MinMaxBytes {
		return fmt.Errorf("max_size: %d bytes are less than %d", o.MaxBytes, MinMaxBytes)
	}
	if o.IdleTTL < 0 {
		return fmt.Errorf("idle_ttl: %s is negative", o.IdleTTL)
	}
	return nil
}

// Memory keeps sessions in the memory of this process, in a Ristretto cache.
//
// Ristretto alone would not do: it takes new keys late, may drop them, and when
// full it refuses newcomers in favour of old favourites, while a session store
// wants the newcomer. So the store keeps the order of use itself, evicts before
// Ristretto is full, looks after each insertion whether it took place, and
// holds sessions in use outside.
type Memory struct {
	cache *ristretto.Cache[string, *Session]
	runs  runs
	// use is held for reading while the cache is changed and for writing while
	// it is closed: Ristretto panics when it is changed after that. It is
	// never taken while mu is held.
	use sync.RWMutex

	mu     sync.Mutex
	opts   MemoryOptions
	order  node                // ring: next is the most recently used
	pinned map[string]*Session // in use, by digest
	firsts map[first]*Session  // by the conversation's opening
	stats  Stats
	closed bool
}

// first is a tenant's conversation by its opening.
type first struct {
	tenant  Tenant
	opening wire.Hash
}

// node is a session's place in the store. All of it is guarded by Memory.mu.
type node struct {
	prev, next *node
	session    *Session // nil in the ring's head
	bytes      int64
	kept       time.Time // when it was last put in the cache
	pins       int
	deleted    bool
	firsts     []wire.Hash
}

var _ Store = (*Memory)(nil)

// NewMemory opens a memory store.
func NewMemory(o MemoryOptions) (*Memory, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	m := &Memory{opts: o, pinned: map[string]*Session{}, firsts: map[first]*Session{}}
	m.order.prev, m.order.next = &m.order, &m.order
	m.stats.Since = time.Now()
	cache, err := ristretto.NewCache(&ristretto.Config[string, *Session]{
		// The counters only decide what Ristretto evicts, and it is never let
		// come that far.
		NumCounters: 1 << 16,
		// The bound is kept here, by order of use; see evict. Never full,
		// Ristretto never refuses.
		MaxCost:            1 << 62,
		BufferItems:        64,
		IgnoreInternalCost: true,
		OnEvict:            func(i *ristretto.Item[*Session]) { m.expired(i.Value) },
	})
	if err != nil {
		return nil, fmt.Errorf("opening the session cache: %w", err)
	}
	m.cache = cache
	return m, nil
}

// SetLimits changes the bounds of a running store.
func (m *Memory) SetLimits(o MemoryOptions) error {
	if err := o.defaults(); err != nil {
		return err
	}
	m.mu.Lock()
	m.opts = o
	evicted := m.evict()
	m.mu.Unlock()
	m.forget(evicted)
	return nil
}

// Recall implements Store.
func (m *Memory) Recall(t Tenant, opening wire.Hash) *wire.Known {
	m.mu.Lock()
	s := m.firsts[first{t, opening}]
	m.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.recall(opening)
}

// Acquire implements Store.
func (m *Memory) Acquire(k Key) *Session {
	digest := k.digest()
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.pinned[digest]
	if s == nil {
		if found, ok := m.find(digest); ok && !found.deleted {
			s = found
		}
	}
	if s == nil {
		now := time.Now()
		s = &Session{digest: digest, id: publicID(digest), upstream: k.Upstream, tenant: k.Tenant, runs: &m.runs, created: now, Unseen: now.Sub(m.stats.Since)}
		s.session = s
		m.stats.Created++
	}
	s.pins++
	m.pinned[digest] = s
	m.front(&s.node)
	return s
}

func (m *Memory) find(digest string) (*Session, bool) {
	if m.closed {
		return nil, false
	}
	return m.cache.Get(digest)
}

// Release implements Store.
func (m *Memory) Release(s *Session) {
	s.Lock()
	bytes := s.size()
	firsts := make([]wire.Hash, 0, len(s.lineages))
	for _, l := range s.lineages {
		firsts = append(firsts, l.known.First())
	}
	s.Unlock()

	m.mu.Lock()
	if m.closed || s.deleted {
		m.unpin(s)
		m.mu.Unlock()
		return
	}
	isNew := s.bytes == 0
	m.stats.Bytes += bytes - s.bytes
	s.bytes = bytes
	m.index(s, firsts)
	ttl := m.opts.IdleTTL
	now := time.Now()
	if !isNew && now.Sub(s.kept) < ttl/refresh {
		m.unpin(s)
		evicted := m.evict()
		m.mu.Unlock()
		m.forget(evicted)
		return
	}
	s.kept = now
	m.mu.Unlock()

	m.keep(s, bytes, ttl+ttl/refresh)

	m.mu.Lock()
	m.unpin(s)
	evicted := m.evict()
	m.mu.Unlock()
	m.forget(evicted)
}

// refresh is the part of its time after which a session in use gets all of it
// again. To do so on every request would wake the cache's own goroutine on each.
const refresh = 16

// keep puts a session in the cache and makes sure that it is there: insertions
// are queued, and a full queue drops them.
func (m *Memory) keep(s *Session, bytes int64, ttl time.Duration) {
	m.use.RLock()
	defer m.use.RUnlock()
	if !m.open() {
		return
	}
	for range 3 {
		m.cache.SetWithTTL(s.digest, s, bytes, ttl)
		if found, ok := m.cache.Get(s.digest); ok && found == s {
			return
		}
		m.cache.Wait()
		if found, ok := m.cache.Get(s.digest); ok && found == s {
			return
		}
	}
}

func (m *Memory) unpin(s *Session) {
	s.pins--
	if s.pins == 0 && m.pinned[s.digest] == s {
		delete(m.pinned, s.digest)
	}
}

// index makes the session findable by the openings of its conversations.
func (m *Memory) index(s *Session, openings []wire.Hash) {
	for _, h := range s.firsts {
		if k := (first{s.tenant, h}); m.firsts[k] == s {
			delete(m.firsts, k)
		}
	}
	s.firsts = openings
	for _, h := range openings {
		m.firsts[first{s.tenant, h}] = s
	}
}

func (m *Memory) front(n *node) {
	n.unlink()
	n.prev, n.next = &m.order, m.order.next
	n.prev.next, n.next.prev = n, n
}

func (n *node) unlink() {
	if n.next != nil {
		n.prev.next, n.next.prev = n.next, n.prev
		n.prev, n.next = nil, nil
	}
}

// evict takes sessions out, least recently used first, until the rest fits.
// What it returns must be passed to forget once the lock is given up.
func (m *Memory) evict() []*Session {
	var out []*Session
	for n := m.order.prev; n != &m.order && m.stats.Bytes > m.opts.MaxBytes; {
		s := n.session
		n = n.prev
		if s.pins > 0 {
			continue
		}
		m.drop(s)
		m.stats.Evicted++
		m.stats.Since = time.Now()
		out = append(out, s)
	}
	return out
}

// drop takes a session out of every index but the cache.
func (m *Memory) drop(s *Session) {
	if s.deleted {
		return
	}
	s.deleted = true
	s.unlink()
	m.stats.Bytes -= s.bytes
	m.index(s, nil)
}

// forget takes sessions out of the cache. It must not hold the lock, because
// the cache calls back.
func (m *Memory) forget(sessions []*Session) {
	if len(sessions) == 0 {
		return
	}
	m.use.RLock()
	defer m.use.RUnlock()
	if !m.open() {
		return
	}
	for _, s := range sessions {
		m.cache.Del(s.digest)
	}
}

func (m *Memory) open() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.closed
}

// expired is called by the cache for sessions whose time is over.
func (m *Memory) expired(s *Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s == nil || s.deleted || s.pins > 0 {
		return
	}
	m.drop(s)
	m.stats.Expired++
}

// Find implements Store.
func (m *Memory) Find(id string) *Session {
	var found *Session
	m.All(func(s *Session) bool {
		if s.id == id {
			found = s
		}
		return found == nil
	})
	return found
}

// Delete implements Store.
func (m *Memory) Delete(id string) bool {
	s := m.Find(id)
	if s == nil {
		return false
	}
	m.mu.Lock()
	m.drop(s)
	if m.pinned[s.digest] == s {
		delete(m.pinned, s.digest)
	}
	m.mu.Unlock()
	m.forget([]*Session{s})
	return true
}

// All implements Store.
func (m *Memory) All(yield func(*Session) bool) {
	m.mu.Lock()
	sessions := make([]*Session, 0, m.stats.Sessions)
	for n := m.order.next; n != &m.order; n = n.next {
		sessions = append(sessions, n.session)
	}
	m.mu.Unlock()
	for _, s := range sessions {
		if !yield(s) {
			return
		}
	}
}

// Stats implements Store.
func (m *Memory) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	st := m.stats
	st.MaxBytes = m.opts.MaxBytes
	for n := m.order.next; n != &m.order; n = n.next {
		st.Sessions++
	}
	return st
}

// Close implements Store. A stream that began before may still release its
// session, which then goes nowhere.
func (m *Memory) Close() error {
	m.use.Lock()
	defer m.use.Unlock()
	m.mu.Lock()
	closed := m.closed
	m.closed = true
	m.order.prev, m.order.next = &m.order, &m.order
	m.pinned, m.firsts = map[string]*Session{}, map[first]*Session{}
	m.mu.Unlock()
	if !closed {
		m.cache.Close()
	}
	return nil
}
