// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"container/list"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/ristretto/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
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
	// MaxBytes bounds the memory of all sessions together. Beyond it sessions go that
	// were never answered, then those of conversations that never went on, as long as they
	// hold more than an eighth, and then the tenant that holds most loses those that it
	// has not used for longest. Default: 640
	// MiB: ten thousand conversations of a hundred turns in use at once, or six times as
	// many that nobody has used for a minute.
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

// Memory keeps sessions in the memory of this process. What became a conversation,
// because an upstream has accepted a request of it, is held; a session whose first
// requests are refused is gone with the last of them.
//
// There is one index of sessions, by their keys; what is not in there is not held. A
// Ristretto cache holds each of them as well, by its number, and reports when its time
// is over. Ristretto alone would not do: it takes new keys late, may drop them, and
// when full it refuses newcomers in favour of old favourites, while a session store
// wants the newcomer. And a key whose entry has run out is empty before the entry is
// reported gone: numbers are given once, so that what is reported of one session
// never strikes the next under its key.
type Memory struct {
	clock *ristretto.Cache[uint64, *Session]
	runs  Runs
	// use is held for reading while the cache is changed and for writing while
	// it is closed: Ristretto panics when it is changed after that. It is
	// never taken while mu is held.
	use sync.RWMutex

	mu       sync.Mutex
	opts     MemoryOptions
	sessions map[string]*Session // by digest: those held, and those in use
	held     ranks               // those held
	newest   list.List           // of *Session held, the newest first
	firsts   turns               // by the conversation's first turn
	said     turns               // by the conversation's answers, see Key.Answer
	stats    StoreStats
	settling *time.Timer // when those that nobody uses are packed
	outlives bool        // snapshots are taken of the sessions
	closed   bool
}

// node is a session's place in the store. All of it but gone is guarded by
// Memory.mu.
type node struct {
	number atomic.Uint64 // 0 as long as it is not held
	made   *list.Element // in Memory.newest
	entry  *lru.Entry[uint64, Tenant, *Session]
	rank   rank
	last   time.Time // when it was last released
	kept   time.Time // when its time last began anew in the cache
	pins   int
	firsts []wire.Hash
	said   []wire.Hash
	gone   atomic.Bool
}

// numbers counts the sessions held by any store since the process began.
var numbers atomic.Uint64

var _ Store = (*Memory)(nil)

// NewMemory opens a memory store.
func NewMemory(o MemoryOptions) (*Memory, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	m := &Memory{opts: o, sessions: map[string]*Session{}, held: newRanks(), firsts: turns{}, said: turns{}}
	m.stats.Since = time.Now()
	clock, err := ristretto.NewCache(&ristretto.Config[uint64, *Session]{
		// The counters only decide what Ristretto evicts, and it is never let
		// come that far.
		NumCounters: 1 << 16,
		// The bound is kept here, by tenants and order of use; see evict. Never
		// full, Ristretto never refuses.
		MaxCost:            1 << 62,
		BufferItems:        64,
		IgnoreInternalCost: true,
		OnEvict:            func(i *ristretto.Item[*Session]) { m.expired(i.Value) },
	})
	if err != nil {
		return nil, fmt.Errorf("opening the session cache: %w", err)
	}
	m.clock = clock
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settling = time.AfterFunc(quiet/2, m.settle)
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
func (m *Memory) Recall(t Tenant, first wire.Hash) *wire.Known {
	m.mu.Lock()
	s := m.firsts.Find(t, first)
	m.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.recall(first)
}

// Acquire implements Store.
func (m *Memory) Acquire(k Key) *Session { return m.acquire(k, k.digest()) }

// acquire pins the session of a key, or else that of a digest.
func (m *Memory) acquire(k Key, digest string) *Session {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.answered(k); s != nil {
		digest = s.digest
	}
	s := m.sessions[digest]
	if s != nil && s.pins == 0 && now.Sub(s.last) > m.opts.IdleTTL { // not swept yet
		m.drop(s)
		m.stats.Expired++
		s = nil
	}
	if s == nil {
		s = &Session{digest: digest, turn: newTurn(), id: publicID(digest), upstream: k.Upstream, tenant: k.Tenant, runs: &m.runs, created: now, Unseen: now.Sub(m.stats.Since)}
		m.sessions[digest] = s
	}
	s.outlives.Store(m.outlives)
	s.pins++
	return s
}

// outlast has sessions be such as snapshots can be taken of, with their next requests.
func (m *Memory) outlast() {
	m.mu.Lock()
	m.outlives = true
	m.mu.Unlock()
}

// adopt takes in a session that was restored, unless there is one under its key.
func (m *Memory) adopt(s *Session) {
	var by indexed
	bytes, is, firsts, said := s.held(&by)
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.sessions[s.digest] != nil {
		return
	}
	s.runs = &m.runs
	m.sessions[s.digest] = s
	m.hold(s, bytes, is, now)
	m.stats.Created--
	m.index(s, firsts, said)
}

// takeUp accounts for a session that has become another's, while it is pinned or held.
func (m *Memory) takeUp(s *Session) {
	var by indexed
	bytes, is, firsts, said := s.held(&by)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || s.gone.Load() || len(firsts) == 0 {
		return
	}
	if s.Number() == 0 {
		m.stats.Created--
	}
	m.hold(s, bytes, is, time.Now())
	m.index(s, firsts, said)
}

// strike forgets a session.
func (m *Memory) strike(s *Session) {
	m.mu.Lock()
	m.drop(s)
	m.mu.Unlock()
	m.forget([]*Session{s})
}

// has reports whether the session of a key is there.
func (m *Memory) has(k Key, digest string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.answered(k) != nil || m.sessions[digest] != nil
}

// answered returns the session in which the answer was given that a key names.
func (m *Memory) answered(k Key) *Session {
	if k.Answer.IsZero() {
		return nil
	}
	if s := m.said.Find(k.Tenant, k.Answer); s != nil && s.upstream == k.Upstream {
		return s
	}
	return nil
}

// Hold implements Store.
func (m *Memory) Hold(s *Session) {
	var by indexed
	bytes, is, firsts, said := s.held(&by)
	if len(firsts) == 0 { // nothing was accepted
		return
	}
	now := time.Now()
	m.mu.Lock()
	if m.closed || s.gone.Load() {
		m.mu.Unlock()
		return
	}
	m.hold(s, bytes, is, now)
	m.index(s, firsts, said)
	ttl := m.opts.IdleTTL
	again := now.Sub(s.kept) >= ttl/refresh
	if again {
		s.kept = now
	}
	m.mu.Unlock()
	if !again {
		return
	}
	m.keep(s, ttl+ttl/refresh)
	if s.gone.Load() { // forgotten before it was kept
		m.forget([]*Session{s})
	}
}

// Release implements Store.
func (m *Memory) Release(s *Session) {
	m.Hold(s)
	m.letGo(s)
}

// letGo takes back a pin.
func (m *Memory) letGo(s *Session) {
	m.mu.Lock()
	m.unpin(s)
	evicted := m.evict()
	m.mu.Unlock()
	m.forget(evicted)
}

// hold accounts for what a session has become, and makes it the one that was used
// last.
func (m *Memory) hold(s *Session, bytes int64, is rank, now time.Time) {
	s.last = now
	if s.Number() > 0 {
		m.held.use(s, bytes, is)
		return
	}
	s.number.Store(numbers.Add(1))
	m.held.put(s, bytes, is)
	s.made = m.newest.PushFront(s)
	m.stats.Created++
}

// refresh is the part of its time after which a session in use gets all of it
// again. To do so on every request would wake the cache's own goroutine on each.
const refresh = 16

// keep begins a session's time anew. Insertions are queued, and a full queue drops
// them.
func (m *Memory) keep(s *Session, ttl time.Duration) {
	m.use.RLock()
	defer m.use.RUnlock()
	for range 3 {
		if !m.open() || m.clock.SetWithTTL(s.Number(), s, 1, ttl) {
			return
		}
		m.clock.Wait()
	}
}

// unpin ends one use of a session. With the last, one that never was accepted is
// gone.
func (m *Memory) unpin(s *Session) {
	if s.pins--; s.pins == 0 && s.Number() == 0 {
		m.drop(s)
	}
}

// every returns the sessions that are held, the newest first, of which something is true.
func (m *Memory) every(is func(*Session) bool) (out []*Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for e := m.newest.Front(); e != nil; e = e.Next() {
		if s := e.Value.(*Session); is(s) {
			out = append(out, s)
		}
	}
	return out
}

// touched reports whether a session was kept warm since it was last released.
func (s *Session) touched() bool { return s.warmed.Load() }

// evict takes sessions out until the rest fits. What it returns must be passed to forget
// once the lock is given up.
func (m *Memory) evict() (out []*Session) {
	for m.held.bytes() > m.opts.MaxBytes {
		s := m.held.spare(m.opts.MaxBytes)
		if s == nil {
			break
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
	if s.gone.Swap(true) {
		return
	}
	if m.sessions[s.digest] == s {
		delete(m.sessions, s.digest)
	}
	if s.Number() == 0 {
		return
	}
	m.index(s, nil, nil)
	m.newest.Remove(s.made)
	m.held[s.rank].Drop(s.entry)
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
		m.clock.Del(s.Number())
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
	if s == nil || s.gone.Load() || s.pins > 0 || m.closed {
		return
	}
	m.drop(s)
	m.stats.Expired++
}

// Stats implements Store.
func (m *Memory) Stats() StoreStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	st := m.stats
	st.MaxBytes, st.Sessions, st.Bytes = m.opts.MaxBytes, m.held.len(), m.held.bytes()
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
	m.settling.Stop()
	m.newest.Init()
	m.sessions, m.firsts, m.said = map[string]*Session{}, turns{}, turns{}
	m.held = newRanks()
	m.mu.Unlock()
	if !closed {
		m.clock.Close()
	}
	return nil
}
