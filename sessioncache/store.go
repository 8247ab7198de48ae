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
	"slices"
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
	sessions map[Digest]*Session // by digest: the stored sessions, and those in use
	pool     *lru.Pool[Tenant]   // the memory of the window
	window   *lru.Cache[uint64, Tenant, *Session]
	cache    *ristretto.Cache[[]byte, offer]
	cached   struct { // the sessions offered to the cache, as long as it has not dropped them
		sessions int
		bytes    int64
	}
	offers   uint64
	newest   list.List // of the stored *Session, the newest first
	firsts   turns     // by the conversations' first turns
	said     turns     // by the conversations' responses, see Key.Answer
	stats    StoreStats
	sweeper  *time.Timer // the regular check of all sessions
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
	st := &Store{opts: o, sessions: map[Digest]*Session{}, firsts: turns{}, said: turns{}}
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
	p, digest := st.persister, k.Digest()
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
// [wire.Known.First]; nil if there is none. It is pinned by [wire.Known.Pin]: the caller releases
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
func (st *Store) Claim(
	ctx context.Context, s *Session, m Match, v *wire.View, states []BlockState, as func(*Conversation),
) bool {
	st.moving.RLock()
	defer st.moving.RUnlock()
	return st.persister == nil || st.persister.claim(ctx, s, m, v, states, as)
}

// Publish makes a session visible to other processes after a commit. Without a shared backend it does
// nothing.
func (st *Store) Publish(s *Session) {
	st.moving.RLock()
	defer st.moving.RUnlock()
	if p := st.persister; p != nil && p.Begin() == nil && p.shared != nil {
		s.health.Changed()
		p.note(s)
		// The next request may go to another process, which waits for the missing response. Publish
		// itself does not wait.
		p.poke()
	}
}

// Owns reports whether a conversation's last request came to this process, as far as known. That
// process sends the pings. Without a shared backend it is always true.
func (st *Store) Owns(ctx context.Context, s *Session, conversation int) bool {
	st.moving.RLock()
	defer st.moving.RUnlock()
	p := st.persister
	return p == nil || p.Begin() != nil || p.shared == nil || p.owns(ctx, s, conversation)
}

// Keep stores a pinned session once a request was committed in it.
func (st *Store) Keep(s *Session) {
	st.keep(s, false)
	st.moving.RLock()
	defer st.moving.RUnlock()
	if p := st.persister; p != nil {
		p.note(s)
	}
}

// Release unpins a session and accounts for its changes. A session without a committed request is
// gone with its last pin.
func (st *Store) Release(s *Session) {
	st.Keep(s)
	st.unpin(s)
	if s.number.Load() > 0 || !s.claimed.Load() {
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
		if s := e.Value.(*Session); s.number.Load() < before {
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

// Close writes the pending changes and releases the store's resources. Sessions acquired
// before may still be used and released.
func (st *Store) Close() error {
	err := st.Move(nil)
	st.closeMemory()
	return err
}

// The sessions in memory: the window, the Ristretto cache behind it, and the indexes. All methods
// without another note need the lock of the store.

const (
	// cachePart: the cache has up to one part in cachePart of the memory, and the window the rest.
	// Conversations end, so that recent use tells more than frequent use: a larger cache finds
	// fewer sessions again. Of the turns of 900 simulated users in 4 and 8 MiB, 91.5 and 96.0 %
	// find their session without a cache, 90.7 and 95.5 % with this one, and 86.4 and 94.8 % with
	// a cache of half of the memory.
	cachePart = 4
	// counters is the number of counters of the cache's policy, more than ten for each packed
	// session of a hundred turns that fits in the cache by default. They take a mebibyte.
	counters = 1 << 18
)

// offer is one stay of a session in the cache. The number distinguishes it from later ones: a
// decision about an earlier stay may come late.
type offer struct {
	*Session
	number uint64
}

// dropped is an offer that has left the cache by the cache's own decision.
type dropped struct {
	offer
	expired bool
}

// node is the part of a session that belongs to the store. All fields except number and gone are
// guarded by Store.mu.
type node struct {
	number   atomic.Uint64                        // 0 until the session is stored
	made     *list.Element                        // in Store.newest
	entry    *lru.Entry[uint64, Tenant, *Session] // in the window, nil if the session is not there
	offer    uint64                               // the number of the session's offer to the cache, 0 if it is not there
	cost     int64                                // of the offer, in bytes
	requests int                                  // of its longest conversation
	last     time.Time                            // when the session was last released
	pins     int
	firsts   []wire.Hash // as in Store.firsts, in room until there are more
	said     []wire.Hash // as in Store.said, likewise
	room     indexed
	gone     atomic.Bool
}

// numbers counts the sessions stored by any store since the process began.
var numbers atomic.Uint64

// openMemory makes the window and the cache of a new store.
func (st *Store) openMemory() (err error) {
	st.pool = lru.NewPool[Tenant](0)
	st.window = lru.New(lru.Options[uint64, Tenant, *Session]{
		Pool:    st.pool,
		InUse:   func(e *lru.Entry[uint64, Tenant, *Session]) bool { return e.Value.pins > 0 },
		Dropped: func(e *lru.Entry[uint64, Tenant, *Session]) { st.leaveWindow(e.Value, e.Size()) },
	})
	st.cache, err = ristretto.NewCache(&ristretto.Config[[]byte, offer]{
		NumCounters: counters, MaxCost: st.opts.MaxBytes / cachePart, BufferItems: 64, IgnoreInternalCost: true,
		// Both halves of a digest, which is uniformly distributed, are hashes already.
		KeyToHash: func(digest []byte) (key, conflict uint64) {
			return binary.LittleEndian.Uint64(digest), binary.LittleEndian.Uint64(digest[8:])
		},
		// Each offer is an item of its own: the removal of the item before, which is still in the
		// cache's buffer, must not remove an item updated in place.
		ShouldUpdate: func(offer, offer) bool { return false },
		OnEvict:      func(i *ristretto.Item[offer]) { st.leaveCache(dropped{i.Value, !i.Expiration.IsZero()}) },
		OnReject:     func(i *ristretto.Item[offer]) { st.leaveCache(dropped{i.Value, false}) },
	})
	if err != nil {
		return err
	}
	st.stats.Since = time.Now()
	st.mu.Lock()
	defer st.mu.Unlock()
	st.sweeper = time.AfterFunc(quiet/2, st.sweep)
	return nil
}

// closeMemory forgets all sessions. It takes the lock.
func (st *Store) closeMemory() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.closed {
		return
	}
	st.closed = true
	st.sweeper.Stop()
	st.cache.Close()
	st.newest.Init()
	st.sessions, st.firsts, st.said, st.evicted = map[Digest]*Session{}, turns{}, turns{}, nil
	st.window = lru.New(lru.Options[uint64, Tenant, *Session]{})
	st.cached.sessions, st.cached.bytes = 0, 0
}

// unlock releases the lock, and reports the sessions that were evicted meanwhile.
func (st *Store) unlock() {
	evicted := st.evicted
	st.evicted = nil
	st.mu.Unlock()
	if st.onEvict == nil || st.backed.Load() {
		return
	}
	for _, s := range evicted {
		st.onEvict(s)
	}
}

// SetLimits changes the bounds of a running store. A bound of 0 stays as it is. It takes the lock.
func (st *Store) SetLimits(o Options) error {
	st.mu.Lock()
	defer st.unlock()
	o.MaxBytes, o.IdleTTL = cmp.Or(o.MaxBytes, st.opts.MaxBytes), cmp.Or(o.IdleTTL, st.opts.IdleTTL)
	if err := o.defaults(); err != nil {
		return err
	}
	if o.MaxBytes == st.opts.MaxBytes && o.IdleTTL == st.opts.IdleTTL || st.closed {
		return nil
	}
	st.opts.MaxBytes, st.opts.IdleTTL = o.MaxBytes, o.IdleTTL
	st.cache.UpdateMaxCost(o.MaxBytes / cachePart)
	// The cache does not apply new limits to the items that it has.
	for _, s := range st.inCache() {
		st.offer(s, st.withdraw(s))
	}
	st.evict()
	return nil
}

// inCache returns the sessions in the cache.
func (st *Store) inCache() []*Session {
	out := make([]*Session, 0, st.cached.sessions)
	for e := st.newest.Front(); e != nil; e = e.Next() {
		if s := e.Value.(*Session); s.offer > 0 {
			out = append(out, s)
		}
	}
	return out
}

// pin returns the session of a key, or else that of a digest, and pins it. It makes the session if
// there is none and create is set. It takes the lock.
func (st *Store) pin(k Key, digest Digest, create bool) *Session {
	now := time.Now()
	st.mu.Lock()
	defer st.unlock()
	if s := st.answered(k); s != nil {
		// The session of the response takes precedence over the client's id.
		digest = s.digest
	}
	s := st.sessions[digest]
	if s != nil && st.expire(s, now) {
		s = nil
	}
	switch {
	case s == nil && !create:
		return nil
	case s == nil:
		s = &Session{
			digest: digest, turn: make(turn, 1), upstream: k.Upstream, tenant: k.Tenant,
			runs: &st.runs, created: now, Unseen: now.Sub(st.stats.Since),
		}
		st.sessions[digest] = s
	case s.offer > 0:
		st.enterWindow(s, st.withdraw(s))
	}
	// The policy of the cache counts all uses, wherever the session is.
	st.cache.Get(s.digest[:])
	s.outlives.Store(st.outlives)
	s.pins++
	return s
}

// unpin ends one use of a session. Without an accepted request, the last unpin drops the session.
// It takes the lock.
func (st *Store) unpin(s *Session) {
	st.mu.Lock()
	defer st.unlock()
	if s.pins--; s.pins == 0 && s.number.Load() == 0 {
		st.drop(s)
	}
	st.evict()
}

// keep accounts for a pinned session with committed requests. Restored reports whether the session is
// older than this store. It takes the lock.
func (st *Store) keep(s *Session, restored bool) {
	var by indexed
	bytes, requests, firsts, said := s.facts(&by)
	if len(firsts) == 0 { // no request was accepted
		return
	}
	st.mu.Lock()
	defer st.unlock()
	// The session may have been deleted while the request was running.
	if st.closed || s.gone.Load() {
		return
	}
	if s.number.Load() == 0 {
		s.number.Store(numbers.Add(1))
		s.made = st.newest.PushFront(s)
		if !restored {
			st.stats.Created++
		}
	}
	s.requests, s.last = requests, time.Now()
	st.enterWindow(s, bytes) // a pinned session is not in the cache
	st.index(s, firsts, said)
}

// adopt stores a restored session, unless its key has a session already. It takes the lock.
func (st *Store) adopt(s *Session) {
	st.mu.Lock()
	known := st.closed || st.sessions[s.digest] != nil
	if !known {
		s.runs = &st.runs
		st.sessions[s.digest] = s
		s.pins++
	}
	st.mu.Unlock()
	if !known {
		st.keep(s, true)
		st.unpin(s)
	}
}

// enterWindow makes a session the most recently used one of the window.
func (st *Store) enterWindow(s *Session, bytes int64) {
	if s.entry == nil {
		s.entry = st.window.Put(s.number.Load(), s.tenant, s, 0)
	} else {
		st.window.Use(s.entry)
	}
	st.window.Resize(s.entry, bytes)
}

// evict has sessions leave the window until the memory suffices.
func (st *Store) evict() {
	part := st.opts.MaxBytes / cachePart
	for cached := int64(-1); cached != st.cached.bytes; {
		cached = st.cached.bytes
		// A session that moves to the cache leaves less room for the window.
		st.pool.Shrink(st.opts.MaxBytes - min(cached, part))
	}
}

// leaveWindow offers a session to the cache if its conversation has continued, and drops it
// otherwise.
func (st *Store) leaveWindow(s *Session, bytes int64) {
	s.entry = nil
	switch {
	case s.gone.Load():
	case s.requests > 1:
		st.offer(s, bytes)
	default:
		st.lose(s, false)
	}
}

// offer gives a session to the cache, which decides later whether it keeps the session.
func (st *Store) offer(s *Session, bytes int64) {
	left := st.opts.IdleTTL - time.Since(s.last)
	if left <= 0 {
		st.lose(s, true)
		return
	}
	st.offers++
	s.offer, s.cost = st.offers, bytes
	st.cached.sessions++
	st.cached.bytes += bytes
	for !st.cache.SetWithTTL(s.digest[:], offer{s, s.offer}, bytes, left) {
		// The cache's buffer of offers is full. No offer may be lost.
		st.cache.Wait()
	}
}

// withdraw takes a session out of the cache, if it is there, and returns its size.
func (st *Store) withdraw(s *Session) (bytes int64) {
	if s.offer == 0 {
		return 0
	}
	st.cache.Del(s.digest[:])
	return st.left(s)
}

// left accounts for a session that has left the cache.
func (st *Store) left(s *Session) (bytes int64) {
	s.offer = 0
	st.cached.sessions--
	st.cached.bytes -= s.cost
	return s.cost
}

// leaveCache is called by the cache for each session that it drops. The lock may be held by a call
// that waits for the cache, and is therefore taken by another goroutine.
func (st *Store) leaveCache(d dropped) {
	if d.Session == nil { // withdrawn at the same time
		return
	}
	st.leaving.Lock()
	defer st.leaving.Unlock()
	if st.leaving.items = append(st.leaving.items, d); len(st.leaving.items) == 1 {
		go st.removeDropped()
	}
}

// removeDropped removes the sessions that the cache has dropped. It takes the lock.
func (st *Store) removeDropped() {
	st.mu.Lock()
	defer st.unlock()
	st.leaving.Lock()
	items := st.leaving.items
	st.leaving.items = nil
	st.leaving.Unlock()
	for _, d := range items {
		// Sessions that were used again, or deleted, have left the cache before.
		if d.Session.offer == d.number && !st.closed {
			st.left(d.Session)
			st.lose(d.Session, d.expired)
		}
	}
}

// lose drops a session for want of room, or at the end of its idle time.
func (st *Store) lose(s *Session, expired bool) {
	st.drop(s)
	st.evicted = append(st.evicted, s)
	if expired {
		st.stats.Expired++
		return
	}
	st.stats.Evicted++
	st.stats.Since = time.Now()
}

// expire drops an unpinned session that has been idle for too long.
func (st *Store) expire(s *Session, now time.Time) bool {
	if s.pins > 0 || now.Sub(s.last) <= st.opts.IdleTTL {
		return false
	}
	st.lose(s, true)
	return true
}

// strike drops a session. It takes the lock.
func (st *Store) strike(s *Session) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.drop(s)
}

// drop removes a session from memory and from every index.
func (st *Store) drop(s *Session) {
	if s.gone.Swap(true) {
		return
	}
	// A newer session may have the same key.
	if st.sessions[s.digest] == s {
		delete(st.sessions, s.digest)
	}
	if s.number.Load() == 0 || st.closed {
		return
	}
	st.index(s, nil, nil)
	st.newest.Remove(s.made)
	st.withdraw(s)
	if s.entry != nil {
		st.window.Drop(s.entry)
	}
}

// outlast marks sessions for snapshots, from their next requests on. It takes the lock.
func (st *Store) outlast() {
	st.mu.Lock()
	st.outlives = true
	st.mu.Unlock()
}

// unforgotten returns the time from which on sessions were dropped only for idleness. An earlier
// process may have begun it. It takes the lock.
func (st *Store) unforgotten(earlier time.Time) time.Time {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !earlier.IsZero() && earlier.Before(st.stats.Since) {
		st.stats.Since = earlier
	}
	return st.stats.Since
}

// maxBytes returns the bound of the memory. It takes the lock.
func (st *Store) maxBytes() int64 {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.opts.MaxBytes
}

// has reports whether the session of a key, or that of a digest, is in memory. It takes the lock.
func (st *Store) has(k Key, digest Digest) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.answered(k) != nil || st.sessions[digest] != nil
}

// every returns the stored sessions that match, the newest first. It takes the lock.
func (st *Store) every(is func(*Session) bool) (out []*Session) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for e := st.newest.Front(); e != nil; e = e.Next() {
		if s := e.Value.(*Session); is(s) {
			out = append(out, s)
		}
	}
	return out
}

// touched reports whether a session was pinged since it was last released.
func (s *Session) touched() bool { return s.warmed.Load() }

// answered returns the session in which the response of a key was given.
func (st *Store) answered(k Key) *Session {
	if k.Answer.IsZero() {
		return nil
	}
	if s := st.said.Find(k.Tenant, k.Answer); s != nil && s.upstream == k.Upstream {
		return s
	}
	return nil
}

func (st *Store) find(id string) *Session {
	if p, ok := parsePublicID(id); ok {
		for digest, s := range st.sessions {
			if digest.public() == p {
				return s
			}
		}
	}
	return nil
}

// turns are a tenant's sessions by turns of their conversations.
type turns = ownerIndex[Tenant, wire.Hash, *Session]

// indexed has room for the hashes of most sessions. Each session contains one, because a small object that outlives its
// request can keep a page of the heap from being returned.
type indexed struct{ firsts, said [2]wire.Hash }

// facts returns the facts that a store indexes: the session's memory, the requests of its longest
// conversation, the first turns of its conversations, and their responses.
func (s *Session) facts(by *indexed) (bytes int64, requests int, firsts, said []wire.Hash) {
	s.Lock()
	defer s.Unlock()
	firsts, said = by.firsts[:0], by.said[:0]
	for _, l := range s.conversations {
		requests = max(requests, l.Requests)
		firsts = append(firsts, l.known.First())
		for _, h := range [...]wire.Hash{l.Reply, l.First} {
			if !h.IsZero() {
				said = append(said, h)
			}
		}
	}
	return s.size(), requests, firsts, said
}

// index makes the session findable by the first turns of its conversations, and by their responses.
func (st *Store) index(s *Session, firsts, said []wire.Hash) {
	if s.firsts == nil {
		s.firsts, s.said = s.room.firsts[:0], s.room.said[:0]
	}
	s.firsts = st.firsts.Move(s.tenant, s, s.firsts, firsts)
	s.said = st.said.Move(s.tenant, s, s.said, said)
}

// ownerIndex finds values by owner and hash. Under each hash it has the latest value.
type ownerIndex[Owner, Hash, T comparable] map[key[Owner, Hash]]T

type key[Owner, Hash comparable] struct {
	owner Owner
	hash  Hash
}

// Find returns an owner's value under a hash, zero if there is none.
func (x ownerIndex[Owner, Hash, T]) Find(o Owner, h Hash) T { return x[key[Owner, Hash]{o, h}] }

// Move indexes a value under new hashes instead of the ones before. It returns the new hashes, in
// the memory of the old ones if they fit.
func (x ownerIndex[Owner, Hash, T]) Move(o Owner, it T, before, now []Hash) []Hash {
	if !slices.Equal(before, now) {
		for _, h := range before {
			if k := (key[Owner, Hash]{o, h}); x[k] == it {
				delete(x, k)
			}
		}
		before = append(before[:0], now...)
	}
	for _, h := range before {
		if k := (key[Owner, Hash]{o, h}); x[k] != it {
			x[k] = it
		}
	}
	return before
}
