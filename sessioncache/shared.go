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

// attempts bounds the merges of a session with newer versions of other processes.
const attempts = 4

// errContended reports that other processes were faster at every attempt.
var errContended = errors.New("others write the session all the time")

// maxLag bounds the time that a request waits for a session that another process is about to
// write.
const maxLag = 100 * time.Millisecond

// acquireShared pins the session of a key, as the last process has left it.
func (p *Persister) acquireShared(ctx context.Context, k Key, digest Digest) *Session {
	begun, st := time.Now(), p.store
	s := st.pin(k, digest, true)
	if k.Request != nil && p.current(s, k.Request) {
		return s
	}
	var answer Digest
	if !k.Answer.IsZero() && !st.has(k, Digest{}) {
		// Another session may have the response.
		answer = answered(k.Tenant, k.Upstream, k.Answer)
	}
	ctx, cancel := context.WithTimeout(ctx, p.o.Budget)
	defer cancel()
	for {
		if of := p.refreshIn(ctx, s, answer); of != s.digest {
			st.unpin(s)
			s = st.pin(k, of, true)
			answer = Digest{}
			p.refreshIn(ctx, s, answer)
		}
		// Another process has deleted the session: begin a new one.
		if s.deleted.Load() {
			st.unpin(s)
			return st.pin(k, s.digest, true)
		}
		// Half the budget stays for the claim.
		if !s.misses(k.Request) || time.Since(begun) >= min(p.o.Budget/2, maxLag) || p.rests(s) {
			return s
		}
		// The process that has the missing answer may be about to write it.
		select {
		case <-time.After(gather):
		case <-ctx.Done():
			return s
		}
	}
}

// current reports whether the session is up to date without a call to the backend. That is so if
// the backend reports no change, and this process has seen all but the last answer of the request.
func (p *Persister) current(s *Session, v *wire.View) bool {
	w, ok := p.shared.(Watcher)
	// No other process has answered in between. Of failed requests elsewhere the backend would have
	// been notified long ago.
	return ok && w.Unchanged(s.digest, Version(s.version.Load())) && s.awaits(v)
}

// refreshIn merges the backend's version into a session. If another session has the answer, it
// returns that session's digest instead.
func (p *Persister) refreshIn(ctx context.Context, s *Session, answer Digest) (of Digest) {
	if ctx.Err() != nil {
		return s.digest
	}
	// The operation may end after the wait: its result is merged all the same, and the channel has
	// room.
	elsewhere := make(chan Digest, 1)
	p.breaker.Within(ctx, p.at(s), "load", func(ctx context.Context) error {
		of, err := p.refresh(ctx, s, answer)
		if err == nil && of != s.digest {
			elsewhere <- of
		}
		return err
	})
	select {
	case of := <-elsewhere:
		return of
	default:
		return s.digest
	}
}

func (p *Persister) refresh(ctx context.Context, s *Session, answer Digest) (of Digest, err error) {
	of = s.digest
	if err := s.turn.lock(ctx); err != nil {
		return of, err
	}
	defer s.turn.unlock()
	if p.rests(s) { // other requests have waited in vain meanwhile
		return of, nil
	}
	var sealed []byte
	var now Version
	have := Version(s.version.Load())
	if answer != (Digest{}) {
		of, sealed, now, err = p.shared.Seek(ctx, answer, of, have)
	} else {
		sealed, now, err = p.shared.Fetch(ctx, of, have)
	}
	if err == nil && of == s.digest && now != have && now != 0 {
		p.takeIn(s, sealed, now)
	}
	return of, err
}

// takeIn merges another process's version into a session, or drops the session if it was deleted.
// The caller holds the session's turn.
func (p *Persister) takeIn(s *Session, sealed []byte, now Version) {
	had := s.version.Swap(uint64(now))
	if len(sealed) == 0 {
		if had != 0 { // else the deletion is older than this session
			s.deleted.Store(true)
			p.store.strike(s)
		}
		return
	}
	other, err := p.unseal(s.digest, sealed)
	if err != nil { // damaged, and replaced once the conversation is written again
		p.o.Failed("restore", err)
		return
	}
	s.Lock()
	s.merge(other)
	// The merged session differs from both copies, and must be written.
	s.saved = 0
	s.Unlock()
	p.store.keep(s, true)
}

// claimShared makes the edits of a request known to other processes. It returns false if another
// process has claimed a different form of the same blocks; that form is then in the session.
func (p *Persister) claimShared(
	ctx context.Context, s *Session, m Match, v *wire.View, states []BlockState, as func(*Conversation),
) bool {
	var base []BlockState
	s.Lock()
	stale := false
	if m.merges != s.merges { // merged after the edits were decided
		stale = s.disagrees(v, nil, 0, states)
	} else if m.Conversation != nil {
		base = m.Conversation.States
	}
	s.Unlock()
	if stale {
		return false
	}
	inCommon := m.Common
	lost := make(chan bool, 1)
	var request Loan // the request's memory is recycled after its end
	p.breaker.Within(ctx, p.at(s), "claim", func(ctx context.Context) error {
		if err := s.turn.lock(ctx); err != nil {
			return err
		}
		defer s.turn.unlock()
		for range attempts {
			var l *Conversation
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
			x := newPublication(s, p.record(s, snapshot), 0)
			if err := p.swap(ctx, x); err != nil {
				return err
			}
			if x.won {
				p.breaker.Took(p.at(s))
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
				// The merge may have replaced conversations.
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

// owns implements [Store.Owns].
func (p *Persister) owns(ctx context.Context, s *Session, conversation int) bool {
	p.breaker.Within(ctx, p.at(s), "load", func(ctx context.Context) error {
		_, err := p.refresh(ctx, s, Digest{})
		return err
	})
	s.Lock()
	defer s.Unlock()
	l := s.Conversation(conversation)
	return l != nil && l.here
}

// unseal restores a session from a sealed record.
func (p *Persister) unseal(digest Digest, sealed []byte) (*Session, error) {
	snapshot, err := p.seals.Open(sealed, digest[:])
	if err != nil {
		return nil, err
	}
	return Restore(digest, snapshot)
}
