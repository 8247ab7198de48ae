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

// write writes what is to be written, until the store is closed.
func (d *Durable) write() {
	defer close(d.done)
	tick := time.NewTicker(d.o.Interval)
	defer tick.Stop()
	var gathered <-chan time.Time // nil while nothing is to be written soon
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
			for len(d.jobs) > 0 {
				d.writeNow(<-d.jobs)
			}
			d.flush(atLast)
			return
		}
	}
}

// writeNow writes at once what requests wait for: all of it together.
func (d *Durable) writeNow(j job) {
	waiting := []job{j}
	for len(d.jobs) > 0 && len(waiting) < batch {
		waiting = append(waiting, <-d.jobs)
	}
	erased := d.erase(0) // before anything is written under the same keys
	for len(waiting) > 0 {
		if waiting[0].of == nil {
			waiting[0].done <- erased
			waiting = waiting[1:]
			continue
		}
		n := 0
		var records []Record
		for ; n < len(waiting) && waiting[n].of != nil; n++ {
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

// erase deletes what is doomed at a shard. What cannot be deleted now is tried again.
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

// longest bounds what one operation may take: nobody waits for it, but for the end.
const longest = 30 * time.Second

// guarded runs an operation of the backend that may panic.
func (d *Durable) guarded(f func(context.Context) error) error {
	limit := longest
	if d.shared != nil { // another try is better than to wait
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

// saveEach saves records, all of them together if that goes well, else each by itself, and
// returns what has come of each.
func (d *Durable) saveEach(records []Record) []error {
	errs := make([]error, len(records))
	err := d.save(records)
	if err == nil {
		return errs
	}
	for i := range records {
		if errs[i] = err; len(records) > 1 && !IsSlow(err) {
			errs[i] = d.save(records[i : i+1])
		}
	}
	return errs
}

// urgency is how a flush goes about it.
type urgency int

const (
	asDue      urgency = iota // it leaves out records that failed a moment ago, and waits for no shard
	everything                // it tries everything, and waits until that is over
	atLast                    // the same, for the last time
)

// lane is where the sessions of one shard are written: shards do not wait for one another,
// nor for a session that has failed by itself.
type lane struct {
	mu    sync.Mutex // held while something is written
	again atomic.Bool
}

// The lanes behind those of the shards.
const (
	failingLane = MaxShards + iota // of sessions that have failed by themselves
	ownLane                        // of the store's own record
	numLanes
)

// inLane has something written in a lane. If that is busy, a flush that waits for no shard
// leaves it out, and there is another one afterwards.
func (d *Durable) inLane(l *lane, how urgency, f func()) {
	if how == asDue {
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

// flush writes what has changed, and what conversations have come to. Those who claim
// something need not wait for all of it.
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

// flushLane writes sessions of one lane. Where a whole part of them fails the others wait
// for better times.
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
		for _, s := range wrote { // after those that failed, which are to blame if they fail again
			d.breaker.Took(d.at(s))
		}
		if failed > 0 && len(wrote) == 0 {
			d.thin()
			return
		}
		for d.shared == nil && len(d.jobs) > 0 {
			d.writeNow(<-d.jobs)
		}
	}
}

// saved notes what has come of writing a session.
func (d *Durable) saved(s *Session, err error, how urgency) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.saving, s.digest)
	if err != nil && how != atLast && d.unsaved[s.digest] == nil { // it waits for better times
		d.unsaved[s.digest] = s
	}
}

// changed are the sessions that have changed, by lane: those that have failed least first,
// and then in the order in which they began: so those that lie side by side in a file are
// written together. The lane of a shard at which something is doomed is there, too.
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
			return cmp.Or(cmp.Compare(a.health.Failures(), b.health.Failures()), cmp.Compare(a.Number(), b.Number()))
		})
	}
	return all
}

// take has sessions written now, but for those that it has turned out meanwhile are not to be.
func (d *Durable) take(changed []*Session) []*Session {
	sessions := make([]*Session, 0, len(changed))
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range changed {
		s := d.unsaved[c.digest]
		if _, doomed := d.doomed[Digest([]byte(c.digest))]; s == nil || doomed { // it would be deleted later
			continue
		}
		delete(d.unsaved, s.digest)
		d.saving[s.digest] = s
		sessions = append(sessions, s)
	}
	return sessions
}

// thin forgets what waits for better times and is in memory no more, but for as much as a
// part of the room there is.
func (d *Durable) thin() {
	var gone []*Session
	d.mu.Lock()
	for _, s := range d.unsaved {
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

// saveAll saves sessions, each if there is anything new in it, and tells what has come of each.
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
		if snapshot == nil { // what was claimed was refused
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
