// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

// poke schedules a flush soon.
func (p *Persister) poke() {
	select {
	case p.soon <- struct{}{}:
	default: // one is scheduled already
	}
}

// publishAll writes the changed sessions together and reports the result of each to done.
func (p *Persister) publishAll(sessions []*Session, done func(s *Session, wrote bool, err error)) {
	var all []*publication
	var alone []*Session // sessions in another exchange, or with a newer version at the backend
	for _, s := range sessions {
		if s.deleted.Load() {
			done(s, false, nil)
			continue
		}
		// Another exchange is under way; publish waits for it later.
		if !s.turn.tryLock() {
			alone = append(alone, s)
			continue
		}
		x := p.news(s)
		if x == nil {
			s.turn.unlock()
			done(s, false, nil)
			continue
		}
		all = append(all, x)
	}
	p.swapAll(all)
	var lost error // an error of the whole shard
	for _, x := range all {
		reuse.Recycle(x.Snapshot)
		x.of.turn.unlock()
		switch {
		case x.Err != nil:
			if IsSlow(x.Err) {
				lost = x.Err
			}
			done(x.of, false, x.Err)
		case x.won:
			done(x.of, true, nil)
		default:
			alone = append(alone, x.of)
		}
	}
	for _, s := range alone {
		err := lost
		if err == nil {
			err = p.guarded(func(ctx context.Context) error { return p.publish(ctx, s) })
		}
		if errors.Is(err, errContended) { // the backend works, and a later flush will succeed
			err = nil
		}
		if IsSlow(err) {
			lost = err
		}
		done(s, err == nil, err)
	}
}

// publish writes a session that has changed, merging newer versions of other processes.
func (p *Persister) publish(ctx context.Context, s *Session) error {
	if err := s.turn.lock(ctx); err != nil {
		return err
	}
	defer s.turn.unlock()
	for range attempts {
		x := p.news(s)
		if x == nil {
			return nil
		}
		err := p.swap(ctx, x)
		reuse.Recycle(x.Snapshot)
		if x.won || err != nil {
			return err
		}
	}
	return errContended
}

// publication is a session on its way to a shared backend. The caller holds the session's turn.
type publication struct {
	Swap
	of  *Session
	sum uint64 // of the snapshot; 0 if it must not be remembered
	won bool
}

// news returns the exchange for a changed session, nil if there is no change. The caller holds the
// session's turn.
func (p *Persister) news(s *Session) *publication {
	snapshot, sum, same := p.draft(s)
	if same || s.deleted.Load() || snapshot == nil && s.version.Load() == 0 {
		reuse.Recycle(snapshot)
		return nil
	}
	if snapshot != nil {
		return newPublication(s, p.record(s, snapshot), sum)
	}
	// The claimed request was refused, and nothing else is known of the session.
	x := newPublication(s, Record{Digest: s.digest, Tenant: s.tenant, Used: time.Now()}, sum)
	x.Forget = true
	return x
}

// draft makes a snapshot, nil if no request was accepted yet, and reports whether it equals the
// last published one.
func (p *Persister) draft(s *Session) (snapshot []byte, sum uint64, same bool) {
	err := recovered(func() error {
		s.Lock()
		defer s.Unlock()
		if len(s.conversations) > 0 {
			snapshot = s.snapshot(nil, s.withClaims(nil))
		}
		sum = xxh3.Hash(snapshot)
		same = sum == s.saved
		return nil
	})
	// Counting a failure as no change lets other sessions be written.
	if err != nil {
		p.o.Failed("save", err)
	}
	return snapshot, sum, same || err != nil
}

func newPublication(s *Session, r Record, sum uint64) *publication {
	r.Known = s.savedResponses
	return &publication{Swap: Swap{Record: r, Have: Version(s.version.Load()), Next: NewVersion()}, of: s, sum: sum}
}

// swap writes the record of a session, or merges the version of another process.
func (p *Persister) swap(ctx context.Context, x *publication) error {
	p.shared.Swap(ctx, []*Swap{&x.Swap})
	return p.came(x)
}

// swapAll does so with several sessions.
func (p *Persister) swapAll(all []*publication) {
	// Connections break one by one: resend the exchanges lost with them, unless time is up.
	begun, left := time.Now(), slices.Clone(all)
	for try := 0; len(left) > 0 && try < attempts && time.Since(begun) < rest; try++ {
		p.swapOnce(left)
		left = slices.DeleteFunc(left, func(x *publication) bool { return !IsSlow(x.Err) })
	}
}

func (p *Persister) swapOnce(all []*publication) {
	swaps := make([]*Swap, len(all))
	for i, x := range all {
		x.Err = nil
		swaps[i] = &x.Swap
	}
	lost := p.guarded(func(ctx context.Context) error {
		p.shared.Swap(ctx, swaps)
		return nil
	})
	for _, x := range all {
		if lost != nil {
			x.Err = lost
		}
		x.Err = recovered(func() error { return p.came(x) })
	}
}

// came applies the result of an exchange to its session.
func (p *Persister) came(x *publication) error {
	s := x.of
	if x.Err != nil {
		// The write may have happened or not, so the next one repeats all answers.
		s.savedResponses = nil
		return x.Err
	}
	if x.Now != x.Next {
		p.takeIn(s, x.Other, x.Now)
		return nil
	}
	x.won, s.savedResponses = true, x.Answers
	if len(x.Unfound) > 0 {
		s.savedResponses = slices.DeleteFunc(slices.Clone(x.Answers),
			func(a Digest) bool { return slices.Contains(x.Unfound, a) })
	}
	s.version.Store(uint64(x.Next))
	if x.Forget {
		s.version.Store(0)
	}
	// Claims have no sum.
	if x.sum != 0 {
		s.Lock()
		s.saved = x.sum
		s.Unlock()
	}
	return nil
}
