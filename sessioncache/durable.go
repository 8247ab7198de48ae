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
	// Memory bounds the sessions that are held in memory. Those that are pushed out
	// or have been idle for too long are only kept by the backend from then on.
	Memory MemoryOptions
	// Over is a memory that holds sessions already, which another store may be over, too;
	// it stays the caller's to close. Nothing is written of its own before [Durable.Take].
	// Default: nil, for a new one.
	Over *Memory
	// Key seals what the backend gets. Without it nothing is read.
	Key secret.Key
	// Interval is how long what has changed waits to be written, but for edits, which
	// are written before they are forwarded, and for what others are to see at once. What
	// could not be written is tried again as often. Default: 1s.
	Interval time.Duration
	// Budget is how long a request waits for the backend at most. Default: 50ms.
	Budget time.Duration
	// Failed gets what the backend failed to do: load, save, claim, delete, or restore
	// for a snapshot that it gave back damaged. Optional.
	Failed func(what string, err error)
}

const (
	defaultInterval = time.Second
	defaultBudget   = 50 * time.Millisecond
	// rest is how long no request waits for a backend, or a shard of it, that was slow.
	rest = time.Second
	// batch is the number of sessions that are written together, while those who
	// claim something wait.
	batch = 32
	// gather is how long what is to be written soon waits for more to go with it.
	gather = time.Millisecond
	// mostUnsaved bounds the sessions that wait to be written while that fails.
	mostUnsaved = 1 << 14
	// mostClaims bounds the claims that wait to be written.
	mostClaims = 256
)

// Durable is a [Store] whose sessions outlive the process. In front is a [Memory];
// behind it a [Backend] gets snapshots of what has changed. A backend that fails or is
// slow costs what it would have remembered, and no request.
type Durable struct {
	*Memory
	open   func() (Backend, error)
	once   sync.Once
	err    error   // of opening
	back   Backend // nil if there is none
	shared Shared  // the same, if other processes use it, too
	parts  Sharded // the same, if it lies at several servers

	o     DurableOptions
	seals secret.Seals

	mu      sync.Mutex
	unsaved map[string]*Session // changed since they were last written
	saving  map[string]*Session // being written
	doomed  map[Digest]struct{} // yet to be deleted
	names   secret.Key          // see Names
	ended   bool

	breaker *Breaker
	lanes   [numLanes]lane
	writing sync.WaitGroup // what is written in lanes
	jobs    chan job
	soon    chan struct{} // holds one where something is to be written soon
	flushes chan chan struct{}
	begun   chan struct{} // closed once there is a backend
	stop    chan struct{} // closed to end the writing
	done    chan struct{} // closed when it has ended

	own own
}

// job is something to write at once.
type job struct {
	record Record
	of     *Session // nil to delete what is doomed
	done   chan error
}

var (
	_ Store   = (*Durable)(nil)
	_ Claimer = (*Durable)(nil)
)

// NewDurable makes a store of a backend, which it opens with [Durable.Begin] or its
// first request, and closes with itself.
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

// OnEvict does nothing: a session that memory has no room for is still kept elsewhere.
func (*Durable) OnEvict(func(*Session)) {}

// Begin opens the backend, once. Without one the store does what a [Memory] does.
func (d *Durable) Begin() error {
	d.once.Do(func() {
		if d.back, d.err = d.open(); d.err != nil {
			d.back = nil
			close(d.done)
			return
		}
		d.shared, _ = d.back.(Shared)
		d.parts, _ = d.back.(Sharded)
		if d.Memory.Stats().Sessions == 0 { // else it is the memory that counts
			d.remember()
		}
		close(d.begun)
		go d.write()
	})
	return d.err
}

// errClosed says that the store was closed before it was used.
var errClosed = errors.New("the store is closed")

// at is where a session lies.
func (d *Durable) at(s *Session) BreakerAt {
	return BreakerAt{Shard: d.shard(Digest([]byte(s.digest))), Record: &s.health}
}

// shard is where a name lies; 0 where all lies together.
func (d *Durable) shard(digest Digest) uint8 {
	if d.parts == nil {
		return 0
	}
	return d.parts.Shard(digest)
}

// rests reports whether nobody is to wait for the backend to tell of a session.
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

// fetch has a session in memory that only the backend has, if it is there in time.
func (d *Durable) fetch(p *Patience, k Key, digest Digest) {
	if s := d.waiting(string(digest[:])); s != nil {
		d.adopt(s)
		return
	}
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
	default: // nobody waits for it any more
	}
}

// waiting makes a session again that is yet to be written, and is not in memory any
// more.
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

// load reads a session: the one in which an answer was given, or the one of the key.
func (d *Durable) load(ctx context.Context, k Key, digest Digest) (*Session, error) {
	if !k.Answer.IsZero() {
		of, ok, err := d.back.Answered(ctx, answered(k.Tenant, k.Upstream, k.Answer))
		if err != nil {
			return nil, err
		}
		if ok {
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
	if err != nil { // it is gone once the conversation is written anew
		d.o.Failed("restore", err)
		return nil, nil
	}
	s.runs = &d.runs
	return s, nil
}

// sought is a session that somebody asks for who is no request.
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
		if d.shared != nil && s.Number() == 0 && s.claimed.Load() { // a stranger's request was refused
			d.poke()
		}
	default:
	}
}

// note has a session written soon.
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

// do has something written at once, and waits for it as long as there is patience.
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

// record seals a snapshot, which is recycled.
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
	return digest, ok && digest != Digest{}
}

// Delete implements Store.
func (d *Durable) Delete(id string) *Session {
	s := d.Memory.Delete(id)
	d.mu.Lock()
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
		if s = d.sought(ctx, digest); s == nil { // it cannot be read, and goes all the same
			s = &Session{digest: string(digest[:]), id: id, turn: newTurn(), runs: &d.runs}
		}
		s.gone.Store(true)
	}
	if s != nil && d.Begin() == nil {
		d.mu.Lock()
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

// Flush has everything written that has changed, and waits for it.
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

// Backend is what the store keeps its sessions in, nil if there is none.
func (d *Durable) Backend() Backend {
	if d.Begin() != nil {
		return nil
	}
	return d.back
}

// Close writes what is yet to be written, and ends the use of the backend.
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
