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

// Shared is a [Backend] that several processes use at once. What one of them has saved
// is in the next answer that another one gets. Its Save keeps each record by itself,
// whatever is there, and its Usage may be zero where to count would be too much.
type Shared interface {
	Backend
	// Fetch returns a session's snapshot and its version; no snapshot if the version
	// is still the one that the caller has. A session that was deleted has a
	// version, and an empty snapshot; one that is not there has version 0.
	Fetch(ctx context.Context, d Digest, have Version) (snapshot []byte, now Version, err error)
	// Seek returns in which session an answer was given, as Answered does, and nothing
	// else if that is not d; if it was given in none, d, and what Fetch does.
	Seek(ctx context.Context, answer, d Digest, have Version) (of Digest, snapshot []byte, now Version, err error)
	// Swap keeps records of several sessions, each by itself: in the place of the version
	// that it says, or where there is nothing. Otherwise it changes nothing of that
	// session, and tells what is there, as Fetch does. A session that was deleted is
	// nothing to those who have none. An empty snapshot deletes it. The memory of the
	// snapshots is used for others once it has returned.
	Swap(ctx context.Context, swaps []*Swap)
}

// Swap is a record for the place of what a [Shared] backend keeps, and what has come of it.
type Swap struct {
	Record
	// Have is the version whose place is taken, Next that of the record.
	Have, Next Version
	// Now is the version that is there afterwards, and Other its snapshot unless it is
	// Next. Err is why neither is known.
	Now   Version
	Other []byte
	Err   error
	// Forget has nothing left of the session, as if it had never been there. Its record
	// has no snapshot then.
	Forget bool
	// Unfound are those of the answers by which the session cannot be found yet: they lie
	// at a server that is lost.
	Unfound []Digest
}

// Watcher is a [Shared] backend that is told what other processes change.
type Watcher interface {
	Shared
	// Unchanged reports whether a session still has a version, as far as the backend
	// was told: of a change it may hear a moment after it was made. It asks nobody.
	// False if the backend cannot tell.
	Unchanged(d Digest, have Version) bool
}

// Sharded is a [Shared] backend that lies at several servers: any of them may be lost, and
// sessions at the others are shared as before.
type Sharded interface {
	Shared
	// Shard returns a number for the server that keeps a session now. It asks no server.
	Shard(d Digest) uint8
}

// Version names what a [Shared] backend keeps of a session at some time. Versions are
// random: one that is not ours is never taken for it, not even once the server has lost
// what it had. 0 is that of nothing.
type Version uint64

// NewVersion makes a version.
func NewVersion() Version { return Version(rand.Uint64() | 1) } //nolint:gosec // no secret

// Publisher is a [Store] that other processes share.
type Publisher interface {
	// Publish has others see what a session has become, once a request was committed
	// in it: its next request may come to another process. It does not wait for that:
	// who gets a request that holds an answer which he does not know of waits for it.
	Publish(s *Session)
	// Owns reports whether a conversation's last request came to this process, as
	// far as can be told: who had it keeps it warm.
	Owns(s *Session, lineage int) bool
}

var _ Publisher = (*Durable)(nil)

// attempts is how often a snapshot is merged with what others have written meanwhile.
const attempts = 4

// errContended says that others were always faster.
var errContended = errors.New("others write the session all the time")

// mostLag bounds how long a request waits for what another process is about to write.
const mostLag = 100 * time.Millisecond

// acquireShared pins the session of a key as the last of all processes has left it. That one
// may be about to write it: whoever misses an answer that the request holds asks again, for
// as long as there is something left to wait for a claim with. Where a conversation begins
// nothing of it is anywhere; what there is besides is taken in when it is published.
func (d *Durable) acquireShared(p *Patience, k Key) *Session {
	digest := k.Digest()
	s := d.acquire(k, string(digest[:]))
	if k.Request != nil && d.current(s, k.Request) {
		return s
	}
	var answer Digest
	if !k.Answer.IsZero() && !d.has(k, "") {
		answer = answered(k.Tenant, k.Upstream, k.Answer)
	}
	least := p.Rest() - min(d.o.Budget/2, mostLag)
	for {
		if of := d.refreshIn(p, s, answer); of != s.digest {
			d.letGo(s)
			s = d.acquire(k, of)
			answer = Digest{}
			d.refreshIn(p, s, answer)
		}
		if s.deleted.Load() {
			d.letGo(s)
			return d.acquire(k, s.digest)
		}
		if !s.misses(k.Request) || p.Rest() <= least || d.rests(s) {
			return s
		}
		p.Pause(gather)
	}
}

// current reports whether nobody need be asked what others have made of a session: the
// last answer in the request is the next to what this process has seen of the
// conversation, so that no other one has answered in between; and of requests that were
// made elsewhere and came to nothing the backend would have been told long ago.
func (d *Durable) current(s *Session, v *wire.View) bool {
	w, ok := d.shared.(Watcher)
	return ok && w.Unchanged(Digest([]byte(s.digest)), Version(s.version.Load())) && s.awaits(v)
}

// refreshIn has a session take in what others have made of it, unless an answer is looked
// for that was given in another one, which it returns. What comes too late for who has
// asked is taken in all the same.
func (d *Durable) refreshIn(p *Patience, s *Session, answer Digest) (of string) {
	if p.Rest() == 0 {
		return s.digest
	}
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
	if d.rests(s) { // others have waited in vain meanwhile
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

// takeIn merges what others have written into a session, or forgets it if they have
// deleted it. Whoever calls has the session's turn.
func (d *Durable) takeIn(s *Session, sealed []byte, now Version) {
	had := s.version.Swap(uint64(now))
	if len(sealed) == 0 {
		if had != 0 { // else it was deleted before there was this one
			s.deleted.Store(true)
			d.Memory.strike(s)
		}
		return
	}
	other, err := d.unseal(Digest([]byte(s.digest)), sealed)
	if err != nil { // it is gone once the conversation is written anew
		d.o.Failed("restore", err)
		return
	}
	s.Lock()
	s.merge(other)
	s.saved = 0
	s.Unlock()
	d.Memory.takeUp(s)
}

// claimShared has what a request is about to be sent with known to others. It reports
// false if another process has forwarded some of its blocks in another form, or has
// them forwarded now: that form is in the session then.
func (d *Durable) claimShared(p *Patience, s *Session, m Match, v *wire.View, states []BlockState, as func(*Lineage)) bool {
	if p.Rest() == 0 { // nobody could be told who was first
		return true
	}
	var base []BlockState
	s.Lock()
	stale := false
	if m.merges != s.merges { // since it was decided what to send
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
	var request Loan // the request's memory goes to others once it is over
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

// unseal makes a session of what a backend has kept.
func (d *Durable) unseal(digest Digest, sealed []byte) (*Session, error) {
	snapshot, err := d.seals.Open(sealed, digest[:])
	if err != nil {
		return nil, err
	}
	return Restore(digest, snapshot)
}
