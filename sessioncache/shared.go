// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Shared is a [Backend] that several processes use at once. A record saved by one process is in the
// next result of another. Save keeps each record by itself, unconditionally. Usage may return zero
// where counting is too expensive.
type Shared interface {
	Backend
	// Fetch returns a session's snapshot and its version, without the snapshot if the version
	// equals have. A deleted session has a version and an empty snapshot; a missing one has version
	// 0.
	Fetch(ctx context.Context, d Digest, have Version) (snapshot []byte, now Version, err error)
	// Seek returns the session in which a response was given, as Answered does. If that is d, or
	// there is none, Seek returns d and the results of Fetch; else nothing but the session.
	Seek(ctx context.Context, answer, d Digest, have Version) (of Digest, snapshot []byte, now Version, err error)
	// Swap replaces the records of several sessions, each by itself, if the present version is the
	// expected one. Otherwise it leaves the session and returns the present version, as Fetch does.
	// To callers without a version a deleted session is missing. An empty snapshot deletes. The
	// store reuses the memory of the snapshots afterwards.
	Swap(ctx context.Context, swaps []*Swap)
}

// Swap is a conditional write to a [Shared] backend, and its result.
type Swap struct {
	Record
	// Have is the expected version, Next the version of the new record.
	Have, Next Version
	// Now is the version after the call, and Other its snapshot unless Now is Next. Err is the
	// reason why neither is known.
	Now   Version
	Other []byte
	Err   error
	// Forget removes all traces of the session, as if it had never been there. The record then has
	// no snapshot.
	Forget bool
	// Unfound are the responses by which the session cannot be found yet, because a server is lost.
	Unfound []Digest
}

// Watcher is a [Shared] backend that is notified of other processes' changes.
type Watcher interface {
	Shared
	// Unchanged reports whether a session still has a version, by the notifications so far, which
	// may lag by a moment. It makes no call to a server. False if the backend cannot tell.
	Unchanged(d Digest, have Version) bool
}

// Sharded is a [Shared] backend on several servers. The loss of one does not affect sessions on the
// others.
type Sharded interface {
	Shared
	// Shard returns the number of the server that has a session now, without a call to a server.
	Shard(d Digest) uint8
}

// Version identifies one state of a session at a [Shared] backend. Versions are random, so that an
// old one never matches by chance, not even after the server has lost its data. 0 is a missing
// session.
type Version uint64

// NewVersion makes a random version.
func NewVersion() Version { return Version(rand.Uint64() | 1) } //nolint:gosec // no secret

// Publisher is a [Store] that other processes share.
type Publisher interface {
	// Publish makes a session visible to other processes after a commit, since its next request may
	// go to another process. It does not wait. A process that lacks an answer in a request waits
	// for it.
	Publish(s *Session)
	// Owns reports whether a conversation's last request came to this process, as far as known.
	// That process sends the pings.
	Owns(s *Session, lineage int) bool
}

var _ Publisher = (*Durable)(nil)

// attempts bounds the merges of a session with newer versions of other processes.
const attempts = 4

// errContended reports that other processes were faster at every attempt.
var errContended = errors.New("others write the session all the time")

// mostLag bounds the time that a request waits for a session that another process is about to
// write.
const mostLag = 100 * time.Millisecond

// acquireShared pins the session of a key, as the last process has left it.
func (d *Durable) acquireShared(p *Patience, k Key) *Session {
	digest := k.Digest()
	s := d.acquire(k, string(digest[:]))
	if k.Request != nil && d.current(s, k.Request) {
		return s
	}
	var answer Digest
	if !k.Answer.IsZero() && !d.has(k, "") {
		// Another session may have the response.
		answer = answered(k.Tenant, k.Upstream, k.Answer)
	}
	// Half the budget stays for the claim.
	least := p.Rest() - min(d.o.Budget/2, mostLag)
	for {
		if of := d.refreshIn(p, s, answer); of != s.digest {
			d.letGo(s)
			s = d.acquire(k, of)
			answer = Digest{}
			d.refreshIn(p, s, answer)
		}
		// Another process has deleted the session: begin a new one.
		if s.deleted.Load() {
			d.letGo(s)
			return d.acquire(k, s.digest)
		}
		if !s.misses(k.Request) || p.Rest() <= least || d.rests(s) {
			return s
		}
		// The process that has the missing answer may be about to write it.
		p.Pause(gather)
	}
}

// current reports whether the session is up to date without a call to the backend. That is so if
// the backend reports no change, and this process has seen all but the last answer of the request.
func (d *Durable) current(s *Session, v *wire.View) bool {
	w, ok := d.shared.(Watcher)
	// No other process has answered in between. Of failed requests elsewhere the backend would have
	// been notified long ago.
	return ok && w.Unchanged(Digest([]byte(s.digest)), Version(s.version.Load())) && s.awaits(v)
}

// refreshIn merges the backend's version into a session. If another session has the answer, it
// returns that session's digest instead. A result after the end of the patience is merged all the
// same.
func (d *Durable) refreshIn(p *Patience, s *Session, answer Digest) (of string) {
	if p.Rest() == 0 {
		return s.digest
	}
	// The channel has room, since the operation may end after the wait.
	elsewhere := make(chan Digest, 1)
	d.breaker.Within(p, d.at(s), "load", func(ctx context.Context) error {
		of, err := d.refresh(ctx, s, answer)
		if err == nil && string(of[:]) != s.digest {
			elsewhere <- of
		}
		return err
	})
	select {
	case of := <-elsewhere:
		return string(of[:])
	default:
		return s.digest
	}
}

func (d *Durable) refresh(ctx context.Context, s *Session, answer Digest) (of Digest, err error) {
	of = Digest([]byte(s.digest))
	if err := s.turn.lock(ctx); err != nil {
		return of, err
	}
	defer s.turn.unlock()
	if d.rests(s) { // other requests have waited in vain meanwhile
		return of, nil
	}
	var sealed []byte
	var now Version
	have := Version(s.version.Load())
	if answer != (Digest{}) {
		of, sealed, now, err = d.shared.Seek(ctx, answer, of, have)
	} else {
		sealed, now, err = d.shared.Fetch(ctx, of, have)
	}
	if err == nil && string(of[:]) == s.digest && now != have && now != 0 {
		d.takeIn(s, sealed, now)
	}
	return of, err
}

// takeIn merges another process's version into a session, or drops the session if it was deleted.
// The caller holds the session's turn.
func (d *Durable) takeIn(s *Session, sealed []byte, now Version) {
	had := s.version.Swap(uint64(now))
	if len(sealed) == 0 {
		if had != 0 { // else the deletion is older than this session
			s.deleted.Store(true)
			d.Memory.strike(s)
		}
		return
	}
	other, err := d.unseal(Digest([]byte(s.digest)), sealed)
	if err != nil { // damaged, and replaced once the conversation is written again
		d.o.Failed("restore", err)
		return
	}
	s.Lock()
	s.merge(other)
	// The merged session differs from both copies, and must be written.
	s.saved = 0
	s.Unlock()
	d.Memory.takeUp(s)
}

// claimShared makes the edits of a request known to other processes. It returns false if another
// process has claimed a different form of the same blocks; that form is then in the session.
func (d *Durable) claimShared(p *Patience, s *Session, m Match, v *wire.View, states []BlockState, as func(*Lineage)) bool {
	if p.Rest() == 0 { // no time is left to settle a conflict
		return true
	}
	var base []BlockState
	s.Lock()
	stale := false
	if m.merges != s.merges { // merged after the edits were decided
		stale = s.disagrees(v, nil, 0, states)
	} else if m.Lineage != nil {
		base = m.Lineage.States
	}
	s.Unlock()
	if stale {
		return false
	}
	inCommon := m.Common
	lost := make(chan bool, 1)
	var request Loan // the request's memory is recycled after its end
	d.breaker.Within(p, d.at(s), "claim", func(ctx context.Context) error {
		if err := s.turn.lock(ctx); err != nil {
			return err
		}
		defer s.turn.unlock()
		for range attempts {
			var l *Lineage
			var snapshot []byte
			if !request.Use(func() {
				s.Lock()
				defer s.Unlock()
				l = s.claim(m, v, states, as)
				snapshot = s.snapshot(nil, s.withClaims(l))
			}) || s.deleted.Load() {
				return nil
			}
			// Without a sum, publish will still write the session after the commit.
			x := newExchange(s, d.record(s, snapshot), 0)
			if err := d.swap(ctx, x); err != nil {
				return err
			}
			if x.won {
				d.breaker.Took(d.at(s))
				s.Lock()
				defer s.Unlock()
				s.keepClaim(l)
				s.claimed.Store(true)
				return nil
			}
			disagree := false
			if !request.Use(func() {
				s.Lock()
				defer s.Unlock()
				// The merge may have replaced lineages.
				m = s.Match(v)
				disagree = s.disagrees(v, base, inCommon, states)
			}) {
				return nil
			}
			if disagree {
				lost <- true
				return nil
			}
		}
		return errContended
	})
	request.End()
	select {
	case <-lost:
		return false
	default:
		return true
	}
}

// Owns implements Publisher.
func (d *Durable) Owns(s *Session, lineage int) bool {
	if d.Begin() != nil || d.shared == nil {
		return true
	}
	d.breaker.Within(d.breaker.Patience(), d.at(s), "load", func(ctx context.Context) error {
		_, err := d.refresh(ctx, s, Digest{})
		return err
	})
	s.Lock()
	defer s.Unlock()
	l := s.Lineage(lineage)
	return l != nil && l.here
}

// unseal restores a session from a sealed record.
func (d *Durable) unseal(digest Digest, sealed []byte) (*Session, error) {
	snapshot, err := d.seals.Open(sealed, digest[:])
	if err != nil {
		return nil, err
	}
	return Restore(digest, snapshot)
}
