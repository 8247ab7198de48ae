// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

// write runs all writes until the store is closed.
func (d *Durable) write() {
	defer close(d.done)
	tick := time.NewTicker(d.o.Interval)
	defer tick.Stop()
	var gathered <-chan time.Time // nil while no write is due soon
	for {
		select {
		case j := <-d.jobs:
			d.writeNow(j)
		case <-d.soon:
			if gathered == nil {
				gathered = time.After(gather)
			}
		case <-gathered:
			gathered = nil
			d.flush(asDue)
		case <-tick.C:
			d.flush(asDue)
		case done := <-d.flushes:
			d.flush(everything)
			close(done)
		case <-d.stop:
			// Requests may still wait for these.
			for len(d.jobs) > 0 {
				d.writeNow(<-d.jobs)
			}
			d.flush(atLast)
			return
		}
	}
}

// writeNow writes the job of a waiting request, together with all others that wait.
func (d *Durable) writeNow(j job) {
	waiting := []job{j}
	for len(d.jobs) > 0 && len(waiting) < batch {
		waiting = append(waiting, <-d.jobs)
	}
	erased := d.erase(0) // before records are written under the same keys
	for len(waiting) > 0 {
		if waiting[0].of == nil {
			waiting[0].done <- erased
			waiting = waiting[1:]
			continue
		}
		n := 0
		var records []Record
		for ; n < len(waiting) && waiting[n].of != nil; n++ {
			// A deleted session must not come back.
			if !waiting[n].of.deleted.Load() {
				records = append(records, waiting[n].record)
			}
		}
		errs := d.saveEach(records)
		for _, w := range waiting[:n] {
			var err error
			if !w.of.deleted.Load() && len(errs) > 0 {
				err, errs = errs[0], errs[1:]
			}
			if err == nil {
				d.breaker.Took(d.at(w.of))
			}
			w.done <- err
		}
		waiting = waiting[n:]
	}
}

// erase deletes the doomed sessions of a shard. A failed deletion is tried again later.
func (d *Durable) erase(shard uint8) error {
	d.mu.Lock()
	doomed := slices.Collect(maps.Keys(d.doomed))
	d.mu.Unlock()
	for _, digest := range doomed {
		if d.shard(digest) != shard {
			continue
		}
		if err := d.guarded(func(ctx context.Context) error { return d.back.Delete(ctx, digest) }); err != nil {
			return err
		}
		d.mu.Lock()
		delete(d.doomed, digest)
		d.mu.Unlock()
	}
	return nil
}

// longest bounds one operation of the backend. No request waits for it, only [Durable.Close].
const longest = 30 * time.Second

// guarded runs an operation of the backend, with a time limit, and turns a panic into an error.
func (d *Durable) guarded(f func(context.Context) error) error {
	limit := longest
	if d.shared != nil { // another try is better than a long wait
		limit = rest
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return recovered(func() error { return f(ctx) })
}

func recovered(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = ErrPanicked
		}
	}()
	return f()
}

func (d *Durable) save(records []Record) error {
	if len(records) == 0 {
		return nil
	}
	return d.guarded(func(ctx context.Context) error { return d.back.Save(ctx, records) })
}

// saveEach saves records together, or one by one if that fails, and returns an error for each.
func (d *Durable) saveEach(records []Record) []error {
	errs := make([]error, len(records))
	err := d.save(records)
	if err == nil {
		return errs
	}
	for i := range records {
		// An error of the whole backend would only repeat for each record.
		if errs[i] = err; len(records) > 1 && !IsSlow(err) {
			errs[i] = d.save(records[i : i+1])
		}
	}
	return errs
}

// urgency tells how thorough a flush is.
type urgency int

const (
	asDue      urgency = iota // skips records that failed a moment ago and busy shards
	everything                // tries all records, and waits until the writes have ended
	atLast                    // as everything, for the last time
)

// lane serialises the writes of one shard. Shards do not wait for one another, nor for a session
// that fails by itself.
type lane struct {
	mu    sync.Mutex // held during a write
	again atomic.Bool
}

// The lanes after those of the shards.
const (
	failingLane = MaxShards + iota // of sessions that fail by themselves
	ownLane                        // of the store's own record
	numLanes
)

// inLane runs a write in a lane. A flush as due skips a busy lane and has the lane's user start
// another flush afterwards.
func (d *Durable) inLane(l *lane, how urgency, f func()) {
	if how == asDue {
		// Set before the attempt to lock, so that the lane's user cannot miss it.
		l.again.Store(true)
		if !l.mu.TryLock() {
			return
		}
		l.again.Store(false)
	}
	d.writing.Go(func() {
		if how != asDue {
			l.mu.Lock()
		}
		defer d.leave(l)
		f()
	})
}

func (d *Durable) leave(l *lane) {
	l.mu.Unlock()
	if l.again.Swap(false) {
		d.poke()
	}
}

// flush writes the changed sessions and the store's own record. Pending claims need not wait for
// all of it.
func (d *Durable) flush(how urgency) {
	if d.shared == nil {
		d.flushLane(0, d.changed(how)[0], how)
		d.saveOwn(how == atLast)
		return
	}
	if how != asDue {
		d.writing.Wait()
		defer d.writing.Wait()
	}
	for lane, sessions := range d.changed(how) {
		d.inLane(&d.lanes[lane], how, func() { d.flushLane(lane, sessions, how) })
	}
	if last := how == atLast; last || time.Since(d.own.exchanged) >= exchangeEvery*d.o.Interval {
		d.own.exchanged = time.Now()
		d.inLane(&d.lanes[ownLane], how, func() { d.saveOwn(last) })
	}
}

// flushLane writes the sessions of one lane. Once a whole batch fails, the rest wait for a later
// flush.
func (d *Durable) flushLane(lane int, sessions []*Session, how urgency) {
	if lane < MaxShards {
		shard := uint8(lane)
		if err := d.erase(shard); err != nil {
			d.breaker.Failed(BreakerAt{Shard: shard}, "delete", err)
		}
	}
	for part := range slices.Chunk(sessions, batch) {
		var wrote []*Session
		failed := 0
		d.saveAll(d.take(part), func(s *Session, did bool, err error) {
			d.saved(s, err, how)
			switch {
			case err != nil:
				failed++
				d.breaker.Failed(d.at(s), "save", err)
			case did:
				wrote = append(wrote, s)
			}
		})
		for _, s := range wrote { // after the failures, so that a record that fails again is blamed
			d.breaker.Took(d.at(s))
		}
		if failed > 0 && len(wrote) == 0 {
			d.thin()
			return
		}
		// Requests wait for these claims; the rest of the lane does not matter as much.
		for d.shared == nil && len(d.jobs) > 0 {
			d.writeNow(<-d.jobs)
		}
	}
}

// saved records the result of writing a session.
func (d *Durable) saved(s *Session, err error, how urgency) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.saving, s.digest)
	if err != nil && how != atLast && d.unsaved[s.digest] == nil { // try again later
		d.unsaved[s.digest] = s
	}
}

// changed returns the changed sessions by lane, including lanes with doomed sessions only. Sessions
// with the fewest failures come first.
func (d *Durable) changed(how urgency) map[int][]*Session {
	all := map[int][]*Session{}
	d.mu.Lock()
	for digest := range d.doomed {
		all[int(d.shard(digest))] = nil
	}
	for digest, s := range d.unsaved {
		if how == asDue && !s.health.Due() {
			continue
		}
		lane := int(d.shard(Digest([]byte(digest))))
		if d.shared != nil && s.health.Failures() > 0 {
			lane = failingLane
		}
		all[lane] = append(all[lane], s)
	}
	d.mu.Unlock()
	for _, sessions := range all {
		slices.SortFunc(sessions, func(a, b *Session) int {
			// The order of creation keeps neighbours in a file in one batch.
			return cmp.Or(cmp.Compare(a.health.Failures(), b.health.Failures()), cmp.Compare(a.Number(), b.Number()))
		})
	}
	return all
}

// take marks sessions as being written and returns them, except for those deleted or written
// meanwhile.
func (d *Durable) take(changed []*Session) []*Session {
	sessions := make([]*Session, 0, len(changed))
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range changed {
		s := d.unsaved[c.digest]
		if _, doomed := d.doomed[Digest([]byte(c.digest))]; s == nil || doomed { // a doomed session would be deleted after the write
			continue
		}
		delete(d.unsaved, s.digest)
		d.saving[s.digest] = s
		sessions = append(sessions, s)
	}
	return sessions
}

// thin drops evicted sessions that wait to be written, beyond a quarter of the memory bound.
func (d *Durable) thin() {
	var gone []*Session
	d.mu.Lock()
	for _, s := range d.unsaved {
		// Sessions that are still in memory need no extra room.
		if s.Gone() {
			gone = append(gone, s)
		}
	}
	d.mu.Unlock()
	room := d.Memory.Stats().MaxBytes / 4
	for _, s := range gone {
		s.Lock()
		room -= s.size()
		s.Unlock()
		if room < 0 {
			d.mu.Lock()
			if d.unsaved[s.digest] == s {
				delete(d.unsaved, s.digest)
			}
			d.mu.Unlock()
		}
	}
}

// saveAll saves the sessions that have changed and reports the result of each to done.
func (d *Durable) saveAll(sessions []*Session, done func(s *Session, wrote bool, err error)) {
	if d.shared != nil {
		d.publishAll(sessions, done)
		return
	}
	records, of := make([]Record, 0, len(sessions)), make([]*Session, 0, len(sessions))
	for _, s := range sessions {
		if s.deleted.Load() {
			done(s, false, nil)
			continue
		}
		snapshot, _, same := d.draft(s)
		if same {
			done(s, false, nil)
			continue
		}
		if snapshot == nil { // the claim was refused
			err := d.guarded(func(ctx context.Context) error { return d.back.Delete(ctx, Digest([]byte(s.digest))) })
			done(s, err == nil, err)
			continue
		}
		records, of = append(records, d.record(s, snapshot)), append(of, s)
	}
	for i, err := range d.saveEach(records) {
		reuse.Recycle(records[i].Snapshot)
		done(of[i], err == nil, err)
	}
}
