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

// Publish implements Publisher.
func (d *Durable) Publish(s *Session) {
	if d.Begin() != nil || d.shared == nil {
		return
	}
	s.health.Changed()
	d.note(s)
	d.poke()
}

// poke has what has changed written soon.
func (d *Durable) poke() {
	select {
	case d.soon <- struct{}{}:
	default: // it is to be written already
	}
}

// publishAll writes sessions together, each if there is anything new in it, and tells what
// has come of each.
func (d *Durable) publishAll(sessions []*Session, done func(s *Session, wrote bool, err error)) {
	var all []*exchange
	var alone []*Session // what is with the backend at the moment, or others were faster to write
	for _, s := range sessions {
		if s.deleted.Load() {
			done(s, false, nil)
			continue
		}
		if !s.turn.tryLock() {
			alone = append(alone, s)
			continue
		}
		x := d.news(s)
		if x == nil {
			s.turn.unlock()
			done(s, false, nil)
			continue
		}
		all = append(all, x)
	}
	d.swapAll(all)
	var lost error // as one of them says, the shard answers nobody
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
			err = d.guarded(func(ctx context.Context) error { return d.publish(ctx, s) })
		}
		if errors.Is(err, errContended) { // the backend is well, and the others will be slower once
			err = nil
		}
		if IsSlow(err) {
			lost = err
		}
		done(s, err == nil, err)
	}
}

// publish writes a session, if there is anything new in it. What others have written
// since it was read is merged with it.
func (d *Durable) publish(ctx context.Context, s *Session) error {
	if err := s.turn.lock(ctx); err != nil {
		return err
	}
	defer s.turn.unlock()
	for range attempts {
		x := d.news(s)
		if x == nil {
			return nil
		}
		err := d.swap(ctx, x)
		reuse.Recycle(x.Snapshot)
		if x.won || err != nil {
			return err
		}
	}
	return errContended
}

// exchange is a session on its way to a shared backend. Whoever sends it has its turn.
type exchange struct {
	Swap
	of  *Session
	sum uint64 // of the snapshot; 0 of one of which nobody is to be reminded
	won bool
}

// news is what is to be written of a session, nil if that is nothing. Whoever calls has its
// turn.
func (d *Durable) news(s *Session) *exchange {
	snapshot, sum, same := d.draft(s)
	if same || s.deleted.Load() || snapshot == nil && s.version.Load() == 0 {
		reuse.Recycle(snapshot)
		return nil
	}
	if snapshot != nil {
		return newExchange(s, d.record(s, snapshot), sum)
	}
	// The request whose edits were claimed was refused, and nothing else is known of the session.
	x := newExchange(s, Record{Digest: Digest([]byte(s.digest)), Tenant: s.tenant, Used: time.Now()}, sum)
	x.Forget = true
	return x
}

// draft makes a snapshot, nil if nothing was accepted yet, and reports whether it is the
// same as what was published last. One that cannot be made counts as the same, so that it
// keeps no other from being written.
func (d *Durable) draft(s *Session) (snapshot []byte, sum uint64, same bool) {
	err := recovered(func() error {
		s.Lock()
		defer s.Unlock()
		if len(s.lineages) > 0 {
			snapshot = s.snapshot(nil, s.withClaims(nil))
		}
		sum = xxh3.Hash(snapshot)
		same = sum == s.saved
		return nil
	})
	if err != nil {
		d.o.Failed("save", err)
	}
	return snapshot, sum, same || err != nil
}

func newExchange(s *Session, r Record, sum uint64) *exchange {
	r.Known = s.told
	return &exchange{Swap: Swap{Record: r, Have: Version(s.version.Load()), Next: NewVersion()}, of: s, sum: sum}
}

// swap writes a record of a session, or takes in what others have written.
func (d *Durable) swap(ctx context.Context, x *exchange) error {
	d.shared.Swap(ctx, []*Swap{&x.Swap})
	return d.came(x)
}

// swapAll does so with several sessions. Connections break one by one: exchanges that were
// lost with them are sent again, unless they have taken long.
func (d *Durable) swapAll(all []*exchange) {
	begun, left := time.Now(), slices.Clone(all)
	for try := 0; len(left) > 0 && try < attempts && time.Since(begun) < rest; try++ {
		d.swapOnce(left)
		left = slices.DeleteFunc(left, func(x *exchange) bool { return !IsSlow(x.Err) })
	}
}

func (d *Durable) swapOnce(all []*exchange) {
	swaps := make([]*Swap, len(all))
	for i, x := range all {
		x.Err = nil
		swaps[i] = &x.Swap
	}
	lost := d.guarded(func(ctx context.Context) error {
		d.shared.Swap(ctx, swaps)
		return nil
	})
	for _, x := range all {
		if lost != nil {
			x.Err = lost
		}
		x.Err = recovered(func() error { return d.came(x) })
	}
}

// came has a session be what has come of an exchange.
func (d *Durable) came(x *exchange) error {
	s := x.of
	if x.Err != nil {
		s.told = nil
		return x.Err
	}
	if x.Now != x.Next {
		d.takeIn(s, x.Other, x.Now)
		return nil
	}
	x.won, s.told = true, x.Answers
	if len(x.Unfound) > 0 {
		s.told = slices.DeleteFunc(slices.Clone(x.Answers), func(a Digest) bool { return slices.Contains(x.Unfound, a) })
	}
	s.version.Store(uint64(x.Next))
	if x.Forget {
		s.version.Store(0)
	}
	if x.sum != 0 {
		s.Lock()
		s.saved = x.sum
		s.Unlock()
	}
	return nil
}
