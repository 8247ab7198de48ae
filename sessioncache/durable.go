// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

// DurableOptions configure a durable store.
type DurableOptions struct {
	// Memory bounds the sessions in memory. Evicted and idle sessions are then only in the backend.
	Memory MemoryOptions
	// Over is an existing memory store with sessions, perhaps shared with another durable store. It
	// stays the caller's to close. Before [Durable.Take] the store writes no record of its own.
	// Default: nil, for a new memory store.
	Over *Memory
	// Key seals the records of the backend. Without it the store can read none.
	Key secret.Key
	// Interval is the delay until changed sessions are written, and between retries of a failed
	// write. Edits are written before they are forwarded, and published sessions at once. Default:
	// 1s.
	Interval time.Duration
	// Budget bounds the time that a request waits for the backend. Default: 50ms.
	Budget time.Duration
	// Failed receives each failed operation of the backend: load, save, claim, delete, or restore
	// for a damaged snapshot. Optional.
	Failed func(what string, err error)
}

const (
	defaultInterval = time.Second
	defaultBudget   = 50 * time.Millisecond
	// rest is the time during which no request waits for a backend, or a shard, that was slow.
	rest = time.Second
	// batch is the number of sessions that are written together. Claims wait meanwhile.
	batch = 32
	// gather is the time that urgent writes wait for further ones to join their batch.
	gather = time.Millisecond
	// mostUnsaved bounds the sessions that wait to be written while writes fail.
	mostUnsaved = 1 << 14
	// mostClaims bounds the claims that wait to be written.
	mostClaims = 256
)

// Durable is a [Store] with sessions that survive the process. A [Memory] in front keeps the
// sessions in use; the [Backend] behind it gets snapshots of changed ones. A failing or slow
// backend loses memories, but never a request.
type Durable struct {
	*Memory
	open   func() (Backend, error)
	once   sync.Once
	err    error   // of opening the backend
	back   Backend // nil if there is none
	shared Shared  // the same backend, if other processes use it, too
	parts  Sharded // the same backend, if it spans several servers

	o     DurableOptions
	seals secret.Seals

	mu      sync.Mutex
	unsaved map[string]*Session // changed since they were last written
	saving  map[string]*Session // being written
	doomed  map[Digest]struct{} // to be deleted
	names   secret.Key          // see Names
	ended   bool

	breaker *Breaker
	lanes   [numLanes]lane
	writing sync.WaitGroup // writes under way in lanes
	jobs    chan job
	soon    chan struct{} // has an element when a write is due soon
	flushes chan chan struct{}
	begun   chan struct{} // closed once the backend is open
	stop    chan struct{} // closed to end the writing
	done    chan struct{} // closed when the writing has ended

	own own
}

// job is one immediate write.
type job struct {
	record Record
	of     *Session // nil to delete the doomed sessions
	done   chan error
}

var (
	_ Store   = (*Durable)(nil)
	_ Claimer = (*Durable)(nil)
)

// NewDurable makes a store over a backend. The backend is opened by [Durable.Begin] or by the first
// request, and closed by [Durable.Close].
func NewDurable(open func() (Backend, error), o DurableOptions) (*Durable, error) {
	if o.Interval == 0 {
		o.Interval = defaultInterval
	}
	if o.Budget == 0 {
		o.Budget = defaultBudget
	}
	if o.Failed == nil {
		o.Failed = func(string, error) {}
	}
	seals, err := secret.NewSeals("snapshots", o.Key)
	if err != nil {
		return nil, fmt.Errorf("sealing snapshots: %w", err)
	}
	m := o.Over
	if m == nil {
		if m, err = NewMemory(o.Memory); err != nil {
			return nil, err
		}
	}
	m.outlast()
	return &Durable{
		Memory: m, open: open, o: o, seals: seals, breaker: NewBreaker(o.Budget, rest, o.Failed), unsaved: map[string]*Session{}, saving: map[string]*Session{}, doomed: map[Digest]struct{}{},
		jobs: make(chan job, mostClaims), soon: make(chan struct{}, 1), flushes: make(chan chan struct{}), begun: make(chan struct{}), stop: make(chan struct{}), done: make(chan struct{}),
	}, nil
}

// OnEvict does nothing: the backend still holds a session that leaves memory.
func (*Durable) OnEvict(func(*Session)) {}

// Begin opens the backend, once. After a failure the store works like a [Memory].
func (d *Durable) Begin() error {
	d.once.Do(func() {
		if d.back, d.err = d.open(); d.err != nil {
			d.back = nil
			close(d.done)
			return
		}
		d.shared, _ = d.back.(Shared)
		d.parts, _ = d.back.(Sharded)
		if d.Memory.Stats().Sessions == 0 { // else the existing memory counts, not the record
			d.remember()
		}
		close(d.begun)
		go d.write()
	})
	return d.err
}

// errClosed reports a store closed before its first use.
var errClosed = errors.New("the store is closed")

// at returns the shard and the record of a session.
func (d *Durable) at(s *Session) BreakerAt {
	return BreakerAt{Shard: d.shard(Digest([]byte(s.digest))), Record: &s.health}
}

// shard returns the shard of a digest, 0 for a backend with a single place.
func (d *Durable) shard(digest Digest) uint8 {
	if d.parts == nil {
		return 0
	}
	return d.parts.Shard(digest)
}

// rests reports whether requests must not wait for the session's record.
func (d *Durable) rests(s *Session) bool { return d.Begin() != nil || d.breaker.Rests(d.at(s)) }

// Acquire implements Store.
func (d *Durable) Acquire(k Key) *Session { return d.acquireIn(d.breaker.Patience(), k) }

func (d *Durable) acquireIn(p *Patience, k Key) *Session {
	if d.Begin() != nil {
		return d.Memory.Acquire(k)
	}
	if d.shared != nil {
		return d.acquireShared(p, k)
	}
	if digest := k.Digest(); !d.has(k, string(digest[:])) {
		d.fetch(p, k, digest)
	}
	return d.Memory.Acquire(k)
}

// fetch loads a session from the backend into memory, if the backend answers in time.
func (d *Durable) fetch(p *Patience, k Key, digest Digest) {
	if s := d.waiting(string(digest[:])); s != nil {
		d.adopt(s)
		return
	}
	// The channel has room, since the operation may end after the wait.
	found := make(chan *Session, 1)
	d.breaker.Within(p, BreakerAt{}, "load", func(ctx context.Context) error {
		s, err := d.load(ctx, k, digest)
		found <- s
		return err
	})
	select {
	case s := <-found:
		if s != nil {
			d.adopt(s)
		}
	default: // the session came too late, and is dropped
	}
}

// waiting restores a session that is no longer in memory but still waits to be written.
func (d *Durable) waiting(digest string) *Session {
	d.mu.Lock()
	s := d.unsaved[digest]
	if s == nil {
		s = d.saving[digest]
	}
	d.mu.Unlock()
	if s == nil || s.deleted.Load() {
		return nil
	}
	s.Lock()
	defer s.Unlock()
	again, err := Restore(Digest([]byte(digest)), s.Snapshot(nil))
	if err != nil {
		d.o.Failed("restore", err)
	}
	return again
}

// load reads the session in which a response was given, or else the session of the digest.
func (d *Durable) load(ctx context.Context, k Key, digest Digest) (*Session, error) {
	if !k.Answer.IsZero() {
		of, ok, err := d.back.Answered(ctx, answered(k.Tenant, k.Upstream, k.Answer))
		if err != nil {
			return nil, err
		}
		if ok {
			// The session of the response takes precedence over the client's id.
			digest = of
		}
	}
	return d.read(ctx, digest)
}

func (d *Durable) read(ctx context.Context, digest Digest) (*Session, error) {
	sealed, err := d.back.Load(ctx, digest)
	if err != nil || sealed == nil {
		return nil, err
	}
	s, err := d.unseal(digest, sealed)
	if err != nil { // damaged, and replaced once the conversation is written again
		d.o.Failed("restore", err)
		return nil, nil
	}
	s.runs = &d.runs
	return s, nil
}

// sought reads a session outside any request, for the admin API.
func (d *Durable) sought(ctx context.Context, digest Digest) *Session {
	s, err := d.read(ctx, digest)
	if err != nil {
		d.breaker.Failed(BreakerAt{Shard: d.shard(digest)}, "load", err)
	}
	return s
}

// Hold implements Store.
func (d *Durable) Hold(s *Session) {
	d.Memory.Hold(s)
	d.note(s)
}

// Release implements Store.
func (d *Durable) Release(s *Session) {
	d.Memory.Hold(s)
	d.note(s)
	d.letGo(s)
	select {
	case <-d.begun: // else the session came from another store
		if d.shared != nil && s.Number() == 0 && s.claimed.Load() { // refused: remove the claim soon
			d.poke()
		}
	default:
	}
}

// note marks a session as changed, to be written soon.
func (d *Durable) note(s *Session) {
	if s.Gone() || s.Number() == 0 && !s.claimed.Load() {
		return
	}
	most := mostUnsaved
	if s.Number() == 0 {
		most /= 2 // sessions that were never answered leave room for the others
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ended && (len(d.unsaved) < most || d.unsaved[s.digest] != nil) {
		d.unsaved[s.digest] = s
	}
}

// Claim implements Claimer.
func (d *Durable) Claim(s *Session, m Match, v *wire.View, states []BlockState, as func(*Lineage)) bool {
	return d.claimIn(d.breaker.Patience(), s, m, v, states, as)
}

func (d *Durable) claimIn(p *Patience, s *Session, m Match, v *wire.View, states []BlockState, as func(*Lineage)) bool {
	// Without the backend the request goes out without a durable claim.
	if d.rests(s) || !s.health.Due() {
		return true
	}
	if d.shared != nil {
		return d.claimShared(p, s, m, v, states, as)
	}
	s.Lock()
	l := s.claim(m, v, states, as)
	snapshot := s.snapshot(nil, s.withClaims(l))
	s.keepClaim(l)
	s.Unlock()
	j := job{record: d.record(s, snapshot), of: s, done: make(chan error, 1)}
	s.claimed.Store(true)
	d.do(p, d.at(s), "claim", j)
	return true
}

// do submits an immediate write and waits for it while the patience lasts.
func (d *Durable) do(p *Patience, at BreakerAt, what string, j job) {
	begun := time.Now()
	timer := time.NewTimer(p.Rest())
	defer timer.Stop()
	defer p.Waited(begun)
	select {
	case d.jobs <- j:
	case <-d.done:
		return
	case <-timer.C:
		d.breaker.Failed(at, what, context.DeadlineExceeded)
		return
	}
	select {
	case err := <-j.done:
		if err != nil {
			d.breaker.Failed(at, what, err)
		}
	case <-d.done:
	case <-timer.C:
		d.breaker.Failed(at, what, context.DeadlineExceeded)
	}
}

// record seals a snapshot and recycles its memory.
func (d *Durable) record(s *Session, snapshot []byte) Record {
	digest := Digest([]byte(s.digest))
	sealed := d.seals.Seal(reuse.Buffer(len(snapshot)+d.seals.Overhead()), snapshot, digest[:])
	r := Record{Digest: digest, Tenant: s.tenant, Used: time.Now(), Snapshot: sealed}
	reuse.Recycle(snapshot)
	s.Lock()
	defer s.Unlock()
	for _, l := range s.lineages {
		for i, h := range [...]wire.Hash{l.Reply, l.First} {
			if h.IsZero() {
				continue
			}
			// The digests are kept, since hashing them for every record would be waste.
			if l.named[i].answer != h {
				l.named[i] = named{h, answered(s.tenant, s.upstream, h)}
			}
			r.Answers = append(r.Answers, l.named[i].digest)
		}
	}
	return r
}

// Find implements Store.
func (d *Durable) Find(id string) *Session {
	if s := d.Memory.Find(id); s != nil {
		return s
	}
	ctx, cancel := context.WithTimeout(context.Background(), rest)
	defer cancel()
	digest, ok := d.named(ctx, id)
	if !ok {
		return nil
	}
	return d.sought(ctx, digest)
}

func (d *Durable) named(ctx context.Context, id string) (digest Digest, ok bool) {
	b, err := hex.DecodeString(id)
	if err != nil || len(b) != 8 || d.Begin() != nil {
		return digest, false
	}
	digest, ok, err = d.back.Named(ctx, [8]byte(b))
	if err != nil {
		var begins Digest
		copy(begins[:], b)
		d.breaker.Failed(BreakerAt{Shard: d.shard(begins)}, "load", err)
		return digest, false
	}
	// The zero digest is the store's own record.
	return digest, ok && digest != Digest{}
}

// Delete implements Store.
func (d *Durable) Delete(id string) *Session {
	s := d.Memory.Delete(id)
	d.mu.Lock()
	// A later write would bring the session back.
	for digest, waits := range d.unsaved {
		if waits.id == id {
			waits.deleted.Store(true)
			delete(d.unsaved, digest)
		}
	}
	d.mu.Unlock()
	if s != nil {
		s.deleted.Store(true)
	}
	ctx, cancel := context.WithTimeout(context.Background(), rest)
	defer cancel()
	digest, ok := d.named(ctx, id)
	if s == nil && ok {
		if s = d.sought(ctx, digest); s == nil { // an unreadable session is deleted all the same
			s = &Session{digest: string(digest[:]), id: id, turn: newTurn(), runs: &d.runs}
		}
		s.gone.Store(true)
	}
	if s != nil && d.Begin() == nil {
		d.mu.Lock()
		// The digest stays until the backend has deleted the session, so that a failure is retried.
		d.doomed[Digest([]byte(s.digest))] = struct{}{}
		d.mu.Unlock()
		at := BreakerAt{Shard: d.shard(Digest([]byte(s.digest)))}
		if d.shared == nil {
			d.do(d.breaker.Patience(), at, "delete", job{done: make(chan error, 1)})
			return s
		}
		d.breaker.Within(d.breaker.Patience(), at, "delete", func(context.Context) error {
			l := &d.lanes[at.Shard]
			l.mu.Lock()
			defer d.leave(l)
			return d.erase(at.Shard)
		})
	}
	return s
}

// Stats implements Store.
func (d *Durable) Stats() StoreStats {
	st := d.Memory.Stats()
	select {
	case <-d.begun:
		st.Kept, st.KeptBytes = d.back.Usage()
	default:
	}
	return st
}

// Flush writes all changed sessions and waits for the end of the writes.
func (d *Durable) Flush() {
	if d.Begin() != nil {
		return
	}
	done := make(chan struct{})
	select {
	case d.flushes <- done:
		<-done
	case <-d.done:
	}
}

// Backend returns the opened backend, nil if there is none.
func (d *Durable) Backend() Backend {
	if d.Begin() != nil {
		return nil
	}
	return d.back
}

// Close writes all changed sessions and closes the backend.
func (d *Durable) Close() (err error) {
	d.mu.Lock()
	ended := d.ended
	d.ended = true
	d.mu.Unlock()
	if ended {
		<-d.done
		return nil
	}
	d.once.Do(func() {
		d.err = errClosed
		close(d.done)
	})
	defer d.breaker.Close()
	if d.back != nil {
		if d.owns() {
			d.mu.Lock()
			// Pings have changed sessions without a write.
			for _, s := range d.every((*Session).touched) {
				d.unsaved[s.digest] = s
			}
			d.mu.Unlock()
		}
		close(d.stop)
		<-d.done
		err = d.back.Close()
	}
	if d.o.Over == nil {
		err = errors.Join(err, d.Memory.Close())
	}
	return err
}
