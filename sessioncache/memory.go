// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"cmp"
	"container/list"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

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
	// MaxBytes bounds the memory of all sessions together. Beyond it sessions without an answer are
	// evicted first, then those of conversations that never continued, as long as these take more
	// than an eighth. After them the tenant with the most memory loses its least recently used
	// sessions. Default: 640 MiB, enough for ten thousand conversations of a hundred turns in use
	// at once, or six times as many that have been idle for a minute.
	MaxBytes int64
	// IdleTTL is the time that a session is remembered after its last request. Default: 3 hours.
	IdleTTL time.Duration
}

func (o *MemoryOptions) defaults() error {
	o.MaxBytes = cmp.Or(o.MaxBytes, DefaultMaxBytes)
	o.IdleTTL = cmp.Or(o.IdleTTL, DefaultIdleTTL)
	if o.MaxBytes < MinMaxBytes {
		return fmt.Errorf("max_size: %d bytes are less than %d", o.MaxBytes, MinMaxBytes)
	}
	if o.IdleTTL < 0 {
		return fmt.Errorf("idle_ttl: %s is negative", o.IdleTTL)
	}
	return nil
}

// Memory keeps sessions in the memory of this process. A session is stored once an upstream has
// accepted a request of it. A session with only refused requests is gone with the last of them.
//
// One index has all sessions, by their keys. An expired session is removed when its key is
// requested, or by the regular check of all sessions.
type Memory struct {
	runs Runs

	mu       sync.Mutex
	opts     MemoryOptions
	sessions map[string]*Session // by digest: those stored, and those in use
	held     ranks               // those stored
	newest   list.List           // of the stored *Session, the newest first
	firsts   turns               // by the conversations' first turns
	said     turns               // by the conversations' responses, see Key.Answer
	stats    StoreStats
	settling *time.Timer // the regular check of all sessions
	outlives bool        // snapshots of the sessions are taken
	closed   bool

	onEvict func(*Session)
	evicted []*Session // those to be told to onEvict without the lock
}

// node is the part of a session that belongs to the store. All fields except gone are guarded by
// Memory.mu.
type node struct {
	number atomic.Uint64 // 0 until the session is stored
	made   *list.Element // in Memory.newest
	entry  *lru.Entry[uint64, Tenant, *Session]
	rank   rank
	last   time.Time // when the session was last released
	pins   int
	firsts []wire.Hash
	said   []wire.Hash
	gone   atomic.Bool
}

// numbers counts the sessions stored by any store since the process began.
var numbers atomic.Uint64

var _ Store = (*Memory)(nil)

// NewMemory opens a memory store.
func NewMemory(o MemoryOptions) (*Memory, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	m := &Memory{opts: o, sessions: map[string]*Session{}, held: newRanks(), firsts: turns{}, said: turns{}}
	m.stats.Since = time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settling = time.AfterFunc(quiet/2, m.settle)
	return m, nil
}

// OnEvict has f called with each session that gives way to others for want of memory, when
// nothing of it is kept. It is set before the store is used.
func (m *Memory) OnEvict(f func(*Session)) { m.onEvict = f }

// unlock ends the use of the store, and tells which sessions gave way meanwhile.
func (m *Memory) unlock() {
	evicted := m.evicted
	m.evicted = nil
	m.mu.Unlock()
	if m.onEvict != nil {
		for _, s := range evicted {
			m.onEvict(s)
		}
	}
}

// SetMaxBytes changes the memory of a running store. Sessions beyond it go at once.
func (m *Memory) SetMaxBytes(n int64) {
	m.mu.Lock()
	defer m.unlock()
	m.opts.MaxBytes = n
	m.evict()
}

// SetLimits changes the bounds of a running store. A bound of 0 stays as it is.
func (m *Memory) SetLimits(o MemoryOptions) error {
	m.mu.Lock()
	defer m.unlock()
	o.MaxBytes, o.IdleTTL = cmp.Or(o.MaxBytes, m.opts.MaxBytes), cmp.Or(o.IdleTTL, m.opts.IdleTTL)
	if err := o.defaults(); err != nil {
		return err
	}
	m.opts = o
	m.evict()
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
		// The session of the response takes precedence over the client's id.
		digest = s.digest
	}
	s := m.sessions[digest]
	if s != nil && m.expire(s, now) {
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

// outlast marks sessions for snapshots, from their next requests on.
func (m *Memory) outlast() {
	m.mu.Lock()
	m.outlives = true
	m.mu.Unlock()
}

// adopt stores a restored session, unless its key has a session already.
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

// takeUp accounts for a session that was merged with another process's, while it is pinned or
// stored.
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

// strike drops a session.
func (m *Memory) strike(s *Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(s)
}

// has reports whether the session of a key is in memory.
func (m *Memory) has(k Key, digest string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.answered(k) != nil || m.sessions[digest] != nil
}

// answered returns the session in which the response of a key was given.
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
	if len(firsts) == 0 { // no request was accepted
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	// The session was deleted while the request was running.
	if m.closed || s.gone.Load() {
		return
	}
	m.hold(s, bytes, is, time.Now())
	m.index(s, firsts, said)
}

// Release implements Store.
func (m *Memory) Release(s *Session) {
	m.Hold(s)
	m.letGo(s)
}

// letGo unpins a session.
func (m *Memory) letGo(s *Session) {
	m.mu.Lock()
	defer m.unlock()
	m.unpin(s)
	m.evict()
}

// hold updates the size and rank of a session and makes it the most recently used one.
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

// unpin ends one use of a session. Without an accepted request, the last unpin drops the session.
func (m *Memory) unpin(s *Session) {
	if s.pins--; s.pins == 0 && s.Number() == 0 {
		m.drop(s)
	}
}

// every returns the stored sessions that match, the newest first.
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

// touched reports whether a session was pinged since it was last released.
func (s *Session) touched() bool { return s.warmed.Load() }

// evict drops sessions until the rest fits.
func (m *Memory) evict() {
	for m.held.bytes() > m.opts.MaxBytes {
		s := m.held.spare(m.opts.MaxBytes)
		if s == nil {
			break
		}
		m.drop(s)
		m.evicted = append(m.evicted, s)
		m.stats.Evicted++
		m.stats.Since = time.Now()
	}
}

// expire drops an unpinned session that has been idle for too long.
func (m *Memory) expire(s *Session, now time.Time) bool {
	if s.pins > 0 || now.Sub(s.last) <= m.opts.IdleTTL {
		return false
	}
	m.drop(s)
	m.stats.Expired++
	return true
}

// drop removes a session from every index.
func (m *Memory) drop(s *Session) {
	if s.gone.Swap(true) {
		return
	}
	// A newer session may have the same key.
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

// Stats implements Store.
func (m *Memory) Stats() StoreStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	st := m.stats
	st.MaxBytes, st.Sessions, st.Bytes = m.opts.MaxBytes, m.held.len(), m.held.bytes()
	return st
}

// Close implements Store. A stream that began before may still release its session, without effect.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.settling.Stop()
	m.newest.Init()
	m.sessions, m.firsts, m.said = map[string]*Session{}, turns{}, turns{}
	m.held = newRanks()
	return nil
}
