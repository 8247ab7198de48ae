// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"cmp"
	"container/list"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/ristretto/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

const (
	// DefaultMaxBytes is the default of [Options.MaxBytes].
	DefaultMaxBytes = 640 << 20
	// DefaultIdleTTL is the default of [Options.IdleTTL].
	DefaultIdleTTL = 3 * time.Hour
	// MinMaxBytes is the smallest bound accepted.
	MinMaxBytes = 1 << 20
	// Newest is above the numbers of all sessions, see [Store.Page].
	Newest = math.MaxUint64
)

// Options configure a store.
type Options struct {
	// MaxBytes bounds the memory of all sessions together. Default: 640 MiB, enough for ten
	// thousand conversations of a hundred turns in use at once, or six times as many that have
	// been idle for a minute.
	MaxBytes int64
	// IdleTTL is the time that a session is remembered after its last request. Default: 3 hours.
	IdleTTL time.Duration
	// Backend keeps the sessions beyond the life of the process. Default: none.
	Backend BackendOptions
}

func (o *Options) defaults() error {
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

// Store keeps sessions in memory, and snapshots of them in a [Backend] if it has one. All methods
// may be called from several goroutines.
//
// A session is stored once an upstream has accepted a request of it. A session with only refused
// requests is gone with the last of them. One index has all sessions in memory, by their keys.
//
// The memory has two parts. The window has the sessions used last, in exact order, and all sessions
// in use: neither these nor a new session are ever evicted. Without room, the least recently used
// session leaves the window: that of the tenant with the most memory, if this is more than a
// quarter of the window, otherwise that of all tenants. If its conversation has continued, the
// session is offered to a Ristretto cache of up to a quarter of the memory. The policy of the cache
// keeps the sessions that are used most often (TinyLFU), and drops each at the end of its idle
// time. The next request of a session takes it back into the window.
//
// So requests with invented credentials, which continue no conversation, displace nothing in the
// cache, and a tenant with many sessions displaces its own sessions in the window first. In the
// cache tenants are not separated: frequent use decides.
type Store struct {
	runs Runs

	mu       sync.Mutex
	opts     Options
	sessions map[string]*Session // by digest: the stored sessions, and those in use
	pool     *lru.Pool[Tenant]   // the memory of the window
	window   *lru.Cache[uint64, Tenant, *Session]
	cache    *ristretto.Cache[string, offer]
	cached   struct { // the sessions offered to the cache, as long as it has not dropped them
		sessions int
		bytes    int64
	}
	offers   uint64
	newest   list.List // of the stored *Session, the newest first
	firsts   turns     // by the conversations' first turns
	said     turns     // by the conversations' responses, see Key.Answer
	stats    StoreStats
	settling *time.Timer // the regular check of all sessions
	outlives bool        // snapshots of the sessions are taken
	closed   bool

	onEvict func(*Session)
	evicted []*Session // reported to onEvict once mu is free

	leaving struct {
		sync.Mutex           // never held with a call to the cache
		items      []dropped // by the cache, and not yet removed from the index
	}

	moving    sync.RWMutex // read-locked while the persister is in use
	persister *Persister   // nil without a backend
	names     secret.Key
	backed    atomic.Bool // there is a persister
}

// New returns a store.
func New(o Options) (*Store, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	st := &Store{opts: o, sessions: map[string]*Session{}, firsts: turns{}, said: turns{}}
	if err := st.openMemory(); err != nil {
		return nil, err
	}
	if o.Backend.Open == nil {
		return st, nil
	}
	p, err := st.Prepare(o.Backend)
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return st, st.Move(p)
}

// Move changes the backend to that of a persister that [Store.Prepare] has made, or to none. The
// sessions in memory are copied to it, and pending writes to the backend before are finished.
func (st *Store) Move(to *Persister) error {
	st.moving.Lock() // waits for requests that use the backend
	before := st.persister
	st.persister = to
	st.backed.Store(to != nil)
	if to != nil && st.names != (secret.Key{}) && st.Len() == 0 {
		st.names = to.keyNames(st.names) // no session in memory depends on the old key
	}
	names := st.names
	st.moving.Unlock()
	if to != nil {
		to.takeOver(names)
	}
	if before == nil {
		return nil
	}
	return before.Close()
}

// Persister returns the persister in use, nil without a backend.
func (st *Store) Persister() *Persister {
	st.moving.RLock()
	defer st.moving.RUnlock()
	return st.persister
}

// Names returns the key for tenant names: the key first used with the backend, else the given one.
// It stays the same as long as sessions are in memory.
func (st *Store) Names(first secret.Key) secret.Key {
	st.moving.Lock()
	defer st.moving.Unlock()
	if st.names == (secret.Key{}) {
		st.names = first
		if p := st.persister; p != nil {
			st.names = p.keyNames(first)
		}
	}
	return st.names
}

// Budget is the time that one request may wait for the backend in all, 0 without a backend.
func (st *Store) Budget() time.Duration {
	if p := st.Persister(); p != nil {
		return p.o.Budget
	}
	return 0
}

// Acquire returns the session of a key, new if need be, and pins it. A pinned session is not
// evicted. Each Acquire needs one Release. Acquire waits for the backend until the end of ctx or of
// [Store.Budget], and then goes on without it.
func (st *Store) Acquire(ctx context.Context, k Key) *Session {
	st.moving.RLock()
	defer st.moving.RUnlock()
	p, digest := st.persister, k.digest()
	if p == nil || p.Begin() != nil {
		return st.pin(k, digest, true)
	}
	if p.shared != nil {
		return p.acquireShared(ctx, k, digest)
	}
	if s := st.pin(k, digest, false); s != nil {
		return s
	}
	p.fetch(ctx, k, digest)
	return st.pin(k, digest, true)
}

// Recall returns the last parsed request of the conversation with this first turn, see
// [wire.Known.First]; nil if there is none. It is pinned by [wire.Known.Hold]: the caller releases
// it.
func (st *Store) Recall(t Tenant, first wire.Hash) *wire.Known {
	st.mu.Lock()
	s := st.firsts.Find(t, first)
	st.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.recall(first)
}

// Claim makes the edits of a request durable before it is sent, as [Session.Commit] would. As
// records further properties of the conversation. Claim waits until the end of ctx and fails
// silently. It returns false if another process claimed first: the session then has the other
// process's edits, and the caller must decide anew. Without a backend it does nothing.
func (st *Store) Claim(ctx context.Context, s *Session, m Match, v *wire.View, states []BlockState, as func(*Lineage)) bool {
	st.moving.RLock()
	defer st.moving.RUnlock()
	return st.persister == nil || st.persister.claim(ctx, s, m, v, states, as)
}

// Publish makes a session visible to other processes after a commit, since its next request may go
// to another process. It does not wait. A process that lacks an answer in a request waits for it.
// Without a shared backend Publish does nothing.
func (st *Store) Publish(s *Session) {
	st.moving.RLock()
	defer st.moving.RUnlock()
	if p := st.persister; p != nil && p.Begin() == nil && p.shared != nil {
		s.health.Changed()
		p.note(s)
		p.poke()
	}
}

// Owns reports whether a conversation's last request came to this process, as far as known. That
// process sends the pings. Without a shared backend it is always true.
func (st *Store) Owns(ctx context.Context, s *Session, lineage int) bool {
	st.moving.RLock()
	defer st.moving.RUnlock()
	p := st.persister
	return p == nil || p.Begin() != nil || p.shared == nil || p.owns(ctx, s, lineage)
}

// Hold stores a pinned session once a request was committed in it.
func (st *Store) Hold(s *Session) {
	st.hold(s, false)
	st.moving.RLock()
	defer st.moving.RUnlock()
	if p := st.persister; p != nil {
		p.note(s)
	}
}

// Release unpins a session and accounts for its changes. A session without a committed request is
// gone with its last pin.
func (st *Store) Release(s *Session) {
	st.Hold(s)
	st.unpin(s)
	if s.Number() > 0 || !s.claimed.Load() {
		return
	}
	// The request was refused: remove its claim soon.
	if p := st.Persister(); p != nil && p.isShared() {
		p.poke()
	}
}

// Find returns a session by its public id, nil if there is none.
func (st *Store) Find(id string) *Session {
	st.mu.Lock()
	s := st.find(id)
	st.mu.Unlock()
	if s != nil {
		return s
	}
	st.moving.RLock()
	defer st.moving.RUnlock()
	if st.persister == nil {
		return nil
	}
	return st.persister.find(id)
}

// Delete drops a session by its public id and returns it, nil if there was none. Requests in flight
// go on, but leave no trace.
func (st *Store) Delete(id string) *Session {
	st.mu.Lock()
	s := st.find(id)
	if s != nil {
		st.drop(s)
	}
	st.mu.Unlock()
	st.moving.RLock()
	defer st.moving.RUnlock()
	if st.persister == nil {
		return s
	}
	return st.persister.delete(id, s)
}

// Page returns up to limit sessions with a committed request and a number below before, the newest
// first.
func (st *Store) Page(before uint64, limit int) []*Session {
	st.mu.Lock()
	defer st.mu.Unlock()
	page := make([]*Session, 0, min(limit, st.newest.Len()))
	for e := st.newest.Front(); e != nil && len(page) < limit; e = e.Next() {
		if s := e.Value.(*Session); s.Number() < before {
			page = append(page, s)
		}
	}
	return page
}

// Len is the number of stored sessions in memory.
func (st *Store) Len() int {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.newest.Len()
}

// Stats returns counters.
func (st *Store) Stats() StoreStats {
	st.mu.Lock()
	out := st.stats
	out.MaxBytes, out.Sessions, out.Bytes = st.opts.MaxBytes, st.newest.Len(), st.window.Bytes()+st.cached.bytes
	st.mu.Unlock()
	if p := st.Persister(); p != nil {
		out.Kept, out.KeptBytes = p.usage()
	}
	return out
}

// OnEvict has f called once with each session that leaves the memory for want of room or at the end
// of its idle time, unless there is a backend that still has it. Call OnEvict before the store is
// used.
func (st *Store) OnEvict(f func(*Session)) { st.onEvict = f }

// SetMaxBytes changes the memory of a running store.
func (st *Store) SetMaxBytes(n int64) { _ = st.SetLimits(Options{MaxBytes: max(n, MinMaxBytes)}) }

// Flush writes all changed sessions and waits for the end of the writes.
func (st *Store) Flush() {
	if p := st.Persister(); p != nil {
		p.Flush()
	}
}

// Close writes what is still to be written and releases the store's resources. Sessions acquired
// before may still be used and released.
func (st *Store) Close() error {
	err := st.Move(nil)
	st.closeMemory()
	return err
}

// hashes are the cache's names of a session: both halves of its digest, which is uniformly
// distributed.
func hashes(digest string) (key, conflict uint64) {
	return binary.LittleEndian.Uint64([]byte(digest[:8])), binary.LittleEndian.Uint64([]byte(digest[8:16]))
}
