// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

// BackendOptions configure the use of a backend.
type BackendOptions struct {
	// Open opens the backend. It is called by [Persister.Begin] or for the first request.
	Open func() (Backend, error)
	// Name identifies the backend among those that a store may have one after the other, such as
	// the path of a file. Optional.
	Name string
	// Key seals the records of the backend. Without it the store can read none.
	Key secret.Key
	// Interval is the delay until changed sessions are written, and between retries of a failed
	// write. Edits are written before they are forwarded, and published sessions at once. Default:
	// 1s.
	Interval time.Duration
	// Budget bounds the time that a request waits for the backend. Default: 500ms, because a
	// conversation with late folds is written to the provider's cache anew.
	Budget time.Duration
	// Failed receives each failed operation of the backend: load, save, claim, delete, or restore
	// for a damaged snapshot. Optional.
	Failed func(what string, err error)
}

const (
	defaultInterval = time.Second
	defaultBudget   = 500 * time.Millisecond
	// rest is the time during which no request waits for a backend, or a shard, that was slow.
	rest = time.Second
	// batch is the number of sessions that are written together. Claims wait meanwhile.
	batch = 32
	// gather is the time that urgent writes wait for further ones to join their batch.
	gather = time.Millisecond
	// maxUnsaved bounds the sessions that wait to be written while writes fail.
	maxUnsaved = 1 << 14
	// maxClaims bounds the claims that wait to be written.
	maxClaims = 256
)

// Persister writes snapshots of a store's changed sessions to a [Backend], and reads those that are
// no longer in memory. A failing or slow backend loses sessions, but never a request.
type Persister struct {
	store  *Store
	once   sync.Once
	err    error   // of opening the backend
	back   Backend // nil if there is none
	shared Shared  // the same backend, if other processes use it, too
	parts  Sharded // the same backend, if it spans several servers

	o     BackendOptions
	seals secret.Seals

	mu      sync.Mutex
	unsaved map[Digest]*Session // changed since they were last written
	saving  map[Digest]*Session // being written
	doomed  map[Digest]struct{} // to be deleted
	names   secret.Key          // see keyNames
	inUse   bool                // by its store, so that the store's own record may be written
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

	storeRecord storeRecord
}

// job is one immediate write.
type job struct {
	record Record
	of     *Session // nil to delete the doomed sessions
	done   chan error
}

// Prepare returns a persister for the store's sessions, which [Store.Move] puts into use. Its
// backend is opened by [Persister.Begin] or by the first request, and closed by [Persister.Close].
func (st *Store) Prepare(o BackendOptions) (*Persister, error) {
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
	st.outlast()
	return &Persister{
		store: st, o: o, seals: seals, breaker: NewBreaker(o.Budget, rest, o.Failed), unsaved: map[Digest]*Session{},
		saving: map[Digest]*Session{}, doomed: map[Digest]struct{}{},
		jobs: make(chan job, maxClaims), soon: make(chan struct{}, 1), flushes: make(chan chan struct{}),
		begun: make(chan struct{}), stop: make(chan struct{}), done: make(chan struct{}),
	}, nil
}

// Name returns [BackendOptions.Name]. Nil has none.
func (p *Persister) Name() string {
	if p == nil {
		return ""
	}
	return p.o.Name
}

// Begin opens the backend, once. After a failure the store keeps sessions in memory only.
func (p *Persister) Begin() error {
	p.once.Do(func() {
		if p.back, p.err = p.o.Open(); p.err != nil {
			p.back = nil
			close(p.done)
			return
		}
		p.shared, _ = p.back.(Shared)
		p.parts, _ = p.back.(Sharded)
		if p.store.Len() == 0 { // else the sessions in memory count, not the record
			p.remember()
		}
		close(p.begun)
		go p.write()
	})
	return p.err
}

// opened reports whether the backend is open.
func (p *Persister) opened() bool {
	select {
	case <-p.begun:
		return true
	default:
		return false
	}
}

// keyNames returns the key for the hashes of tenants: the key first used with the backend, else the
// given one.
func (p *Persister) keyNames(first secret.Key) secret.Key {
	// A restarted process must find the sessions of its tenants. A shared backend stores no key.
	_ = p.Begin()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.names == (secret.Key{}) {
		p.names = first
		p.storeRecord.stale.Store(true)
	}
	return p.names
}

// takeOver puts the persister into use. Call it once no other persister of the store is in use.
func (p *Persister) takeOver(names secret.Key) {
	p.mu.Lock()
	p.inUse = true
	if names != (secret.Key{}) {
		p.names = names
	}
	p.mu.Unlock()
	// With a key for tenant names, all sessions in memory go to the backend.
	if names != (secret.Key{}) {
		p.noteAll()
	}
}

// isInUse reports whether [Persister.takeOver] was called.
func (p *Persister) isInUse() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inUse
}

// SetKey seals all sessions in memory and all later records under a new key, and writes them again.
// Records under the old key stay readable while the process remembers that key.
func (p *Persister) SetKey(key secret.Key) error {
	other, err := p.seals.Use(key)
	if other {
		p.noteAll()
	}
	return err
}

// noteAll schedules an immediate write of all sessions in memory.
func (p *Persister) noteAll() {
	for _, s := range p.store.every(func(*Session) bool { return true }) {
		p.note(s)
	}
	p.storeRecord.stale.Store(true)
	p.poke()
}

// errClosed reports a store closed before its first use.
var errClosed = errors.New("the store is closed")

// at returns the shard and the record of a session.
func (p *Persister) at(s *Session) BreakerAt {
	return BreakerAt{Shard: p.shard(s.digest), Record: &s.health}
}

// shard returns the shard of a digest, 0 for a backend with a single place.
func (p *Persister) shard(digest Digest) uint8 {
	if p.parts == nil {
		return 0
	}
	return p.parts.Shard(digest)
}

// rests reports whether requests must not wait for the session's record.
func (p *Persister) rests(s *Session) bool { return p.Begin() != nil || p.breaker.Rests(p.at(s)) }

// fetch loads a session from the backend into memory, if the backend answers before the end of ctx
// or of the budget.
func (p *Persister) fetch(ctx context.Context, k Key, digest Digest) {
	if s := p.waiting(digest); s != nil {
		p.store.adopt(s)
		return
	}
	// The channel has room, since the operation may end after the wait.
	found := make(chan *Session, 1)
	p.breaker.Within(ctx, BreakerAt{}, "load", func(ctx context.Context) error {
		s, err := p.load(ctx, k, digest)
		found <- s
		return err
	})
	select {
	case s := <-found:
		if s != nil {
			p.store.adopt(s)
		}
	default: // the session came too late, and is dropped
	}
}

// waiting restores a session that is no longer in memory but still waits to be written.
func (p *Persister) waiting(digest Digest) *Session {
	p.mu.Lock()
	s := p.unsaved[digest]
	if s == nil {
		s = p.saving[digest]
	}
	p.mu.Unlock()
	if s == nil || s.deleted.Load() {
		return nil
	}
	s.Lock()
	defer s.Unlock()
	again, err := Restore(digest, s.Snapshot(nil))
	if err != nil {
		p.o.Failed("restore", err)
	}
	return again
}

// load reads the session in which a response was given, or else the session of the digest.
func (p *Persister) load(ctx context.Context, k Key, digest Digest) (*Session, error) {
	if !k.Answer.IsZero() {
		of, ok, err := p.back.Answered(ctx, answered(k.Tenant, k.Upstream, k.Answer))
		if err != nil {
			return nil, err
		}
		if ok {
			// The session of the response takes precedence over the client's id.
			digest = of
		}
	}
	return p.read(ctx, digest)
}

func (p *Persister) read(ctx context.Context, digest Digest) (*Session, error) {
	sealed, err := p.back.Load(ctx, digest)
	if err != nil || sealed == nil {
		return nil, err
	}
	s, err := p.unseal(digest, sealed)
	if err != nil { // damaged, and replaced once the conversation is written again
		p.o.Failed("restore", err)
		return nil, nil
	}
	s.runs = &p.store.runs
	return s, nil
}

// sought reads a session outside any request, for the admin API.
func (p *Persister) sought(ctx context.Context, digest Digest) *Session {
	s, err := p.read(ctx, digest)
	if err != nil {
		p.breaker.Failed(BreakerAt{Shard: p.shard(digest)}, "load", err)
	}
	return s
}

// note marks a session as changed, to be written soon.
func (p *Persister) note(s *Session) {
	if s.Gone() || s.Number() == 0 && !s.claimed.Load() {
		return
	}
	limit := maxUnsaved
	if s.Number() == 0 {
		limit /= 2 // sessions that were never answered leave room for the others
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended && (len(p.unsaved) < limit || p.unsaved[s.digest] != nil) {
		p.unsaved[s.digest] = s
	}
}

// claim implements [Store.Claim].
func (p *Persister) claim(
	ctx context.Context, s *Session, m Match, v *wire.View, states []BlockState, as func(*Conversation),
) bool {
	// Without the backend, or the time to wait for it, the request goes out without a durable
	// claim.
	if ctx.Err() != nil || p.rests(s) || !s.health.Due() {
		return true
	}
	if p.shared != nil {
		return p.claimShared(ctx, s, m, v, states, as)
	}
	s.Lock()
	l := s.claim(m, v, states, as)
	snapshot := s.snapshot(nil, s.withClaims(l))
	s.keepClaim(l)
	s.Unlock()
	j := job{record: p.record(s, snapshot), of: s, done: make(chan error, 1)}
	s.claimed.Store(true)
	p.do(ctx, p.at(s), "claim", j)
	return true
}

// do submits an immediate write and waits for it until the end of ctx or of the budget.
func (p *Persister) do(ctx context.Context, at BreakerAt, what string, j job) {
	ctx, cancel := context.WithTimeout(ctx, p.o.Budget)
	defer cancel()
	var err error
	select {
	case p.jobs <- j:
		select {
		case err = <-j.done:
		case <-p.done:
		case <-ctx.Done():
			err = ctx.Err()
		}
	case <-p.done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	// The end of the request itself is no failure of the backend.
	if err != nil && !errors.Is(err, context.Canceled) {
		p.breaker.Failed(at, what, err)
	}
}

// record seals a snapshot and recycles its memory.
func (p *Persister) record(s *Session, snapshot []byte) Record {
	digest := s.digest
	sealed := p.seals.Seal(reuse.Buffer(len(snapshot)+p.seals.Overhead()), snapshot, digest[:])
	r := Record{Digest: digest, Tenant: s.tenant, Used: time.Now(), Snapshot: sealed}
	reuse.Recycle(snapshot)
	s.Lock()
	defer s.Unlock()
	for _, l := range s.conversations {
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

// find returns the session of a public id from the backend.
func (p *Persister) find(id string) *Session {
	ctx, cancel := context.WithTimeout(context.Background(), rest)
	defer cancel()
	public, ok := parsePublicID(id)
	if !ok {
		return nil
	}
	digest, ok := p.named(ctx, public)
	if !ok {
		return nil
	}
	return p.sought(ctx, digest)
}

func (p *Persister) named(ctx context.Context, id publicID) (digest Digest, ok bool) {
	if p.Begin() != nil {
		return digest, false
	}
	digest, ok, err := p.back.Named(ctx, id)
	if err != nil {
		var begins Digest
		copy(begins[:], id[:])
		p.breaker.Failed(BreakerAt{Shard: p.shard(begins)}, "load", err)
		return digest, false
	}
	// The zero digest is the store's own record.
	return digest, ok && digest != Digest{}
}

// delete deletes a session at the backend, which may be nil if it is not in memory.
func (p *Persister) delete(id string, s *Session) *Session {
	public, ok := parsePublicID(id)
	if !ok {
		return nil
	}
	p.mu.Lock()
	// A later write would bring the session back.
	for digest, waits := range p.unsaved {
		if digest.public() == public {
			waits.deleted.Store(true)
			delete(p.unsaved, digest)
		}
	}
	p.mu.Unlock()
	if s != nil {
		s.deleted.Store(true)
	}
	ctx, cancel := context.WithTimeout(context.Background(), rest)
	defer cancel()
	digest, ok := p.named(ctx, public)
	if s == nil && ok {
		if s = p.sought(ctx, digest); s == nil { // an unreadable session is deleted all the same
			s = &Session{digest: digest, turn: make(turn, 1), runs: &p.store.runs}
		}
		s.gone.Store(true)
	}
	if s == nil || p.Begin() != nil {
		return s
	}
	p.mu.Lock()
	// The digest stays until the backend has deleted the session, so that a failure is retried.
	p.doomed[s.digest] = struct{}{}
	p.mu.Unlock()
	at := BreakerAt{Shard: p.shard(s.digest)}
	if p.shared == nil {
		p.do(ctx, at, "delete", job{done: make(chan error, 1)})
		return s
	}
	p.breaker.Within(ctx, at, "delete", func(context.Context) error {
		l := &p.lanes[at.Shard]
		l.mu.Lock()
		defer p.leave(l)
		return p.erase(at.Shard)
	})
	return s
}

// usage returns the number and the size of the sessions in the backend.
func (p *Persister) usage() (sessions int, bytes int64) {
	if !p.opened() {
		return 0, 0
	}
	return p.back.Usage()
}

// isShared reports whether other processes use the backend, too.
func (p *Persister) isShared() bool { return p.opened() && p.shared != nil }

// Flush writes all changed sessions and waits for the end of the writes.
func (p *Persister) Flush() {
	if p.Begin() != nil {
		return
	}
	done := make(chan struct{})
	select {
	case p.flushes <- done:
		<-done
	case <-p.done:
	}
}

// Backend returns the opened backend, nil if there is none.
func (p *Persister) Backend() Backend {
	if p.Begin() != nil {
		return nil
	}
	return p.back
}

// Close writes all changed sessions and closes the backend.
func (p *Persister) Close() (err error) {
	p.mu.Lock()
	ended := p.ended
	p.ended = true
	p.mu.Unlock()
	if ended {
		<-p.done
		return nil
	}
	p.once.Do(func() {
		p.err = errClosed
		close(p.done)
	})
	if p.back != nil {
		if p.isInUse() {
			p.mu.Lock()
			// Pings have changed sessions without a write.
			for _, s := range p.store.every((*Session).touched) {
				p.unsaved[s.digest] = s
			}
			p.mu.Unlock()
		}
		close(p.stop)
		<-p.done
		err = p.back.Close()
	}
	return err
}
