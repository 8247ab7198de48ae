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
func (p *Persister) write() {
	defer close(p.done)
	tick := time.NewTicker(p.o.Interval)
	defer tick.Stop()
	var gathered <-chan time.Time // nil while no write is due soon
	for {
		select {
		case j := <-p.jobs:
			p.writeNow(j)
		case <-p.soon:
			if gathered == nil {
				gathered = time.After(gather)
			}
		case <-gathered:
			gathered = nil
			p.flush(asDue)
		case <-tick.C:
			p.flush(asDue)
		case done := <-p.flushes:
			p.flush(everything)
			close(done)
		case <-p.stop:
			// Requests may still wait for these.
			for len(p.jobs) > 0 {
				p.writeNow(<-p.jobs)
			}
			p.flush(atLast)
			return
		}
	}
}

// writeNow writes the job of a waiting request, together with all others that wait.
func (p *Persister) writeNow(j job) {
	waiting := []job{j}
	for len(p.jobs) > 0 && len(waiting) < batch {
		waiting = append(waiting, <-p.jobs)
	}
	erased := p.erase(0) // before records are written under the same keys
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
		errs := p.saveEach(records)
		for _, w := range waiting[:n] {
			var err error
			if !w.of.deleted.Load() && len(errs) > 0 {
				err, errs = errs[0], errs[1:]
			}
			if err == nil {
				p.breaker.Took(p.at(w.of))
			}
			w.done <- err
		}
		waiting = waiting[n:]
	}
}

// erase deletes the doomed sessions of a shard. A failed deletion is tried again later.
func (p *Persister) erase(shard uint8) error {
	p.mu.Lock()
	doomed := slices.Collect(maps.Keys(p.doomed))
	p.mu.Unlock()
	for _, digest := range doomed {
		if p.shard(digest) != shard {
			continue
		}
		if err := p.guarded(func(ctx context.Context) error { return p.back.Delete(ctx, digest) }); err != nil {
			return err
		}
		p.mu.Lock()
		delete(p.doomed, digest)
		p.mu.Unlock()
	}
	return nil
}

// maxWriteTime bounds one operation of the backend. No request waits for it, only [Persister.Close].
const maxWriteTime = 30 * time.Second

// guarded runs an operation of the backend, with a time limit, and turns a panic into an error.
func (p *Persister) guarded(f func(context.Context) error) error {
	limit := maxWriteTime
	if p.shared != nil { // another try is better than a long wait
		limit = rest
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return recovered(func() error { return f(ctx) })
}

func (p *Persister) save(records []Record) error {
	if len(records) == 0 {
		return nil
	}
	return p.guarded(func(ctx context.Context) error { return p.back.Save(ctx, records) })
}

// saveEach saves records together, or one by one if that fails, and returns an error for each.
func (p *Persister) saveEach(records []Record) []error {
	errs := make([]error, len(records))
	err := p.save(records)
	if err == nil {
		return errs
	}
	for i := range records {
		// An error of the whole backend would only repeat for each record.
		if errs[i] = err; len(records) > 1 && !IsSlow(err) {
			errs[i] = p.save(records[i : i+1])
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
	failingLane     = MaxShards + iota // of sessions that fail by themselves
	storeRecordLane                    // of the store's own record
	numLanes
)

// inLane runs a write in a lane. A flush as due skips a busy lane and has the lane's user start
// another flush afterwards.
func (p *Persister) inLane(l *lane, how urgency, f func()) {
	if how == asDue {
		// Set before the attempt to lock, so that the lane's user cannot miss it.
		l.again.Store(true)
		if !l.mu.TryLock() {
			return
		}
		l.again.Store(false)
	}
	p.writing.Go(func() {
		if how != asDue {
			l.mu.Lock()
		}
		defer p.leave(l)
		f()
	})
}

func (p *Persister) leave(l *lane) {
	l.mu.Unlock()
	if l.again.Swap(false) {
		p.poke()
	}
}

// flush writes the changed sessions and the store's own record. Pending claims need not wait for
// all of it.
func (p *Persister) flush(how urgency) {
	if p.shared == nil {
		p.flushLane(0, p.changed(how)[0], how)
		p.saveStoreRecord(how == atLast)
		return
	}
	if how != asDue {
		p.writing.Wait()
		defer p.writing.Wait()
	}
	for lane, sessions := range p.changed(how) {
		p.inLane(&p.lanes[lane], how, func() { p.flushLane(lane, sessions, how) })
	}
	if last := how == atLast; last || time.Since(p.storeRecord.exchanged) >= exchangeEvery*p.o.Interval {
		p.storeRecord.exchanged = time.Now()
		p.inLane(&p.lanes[storeRecordLane], how, func() { p.saveStoreRecord(last) })
	}
}

// flushLane writes the sessions of one lane. Once a whole batch fails, the rest wait for a later
// flush.
func (p *Persister) flushLane(lane int, sessions []*Session, how urgency) {
	if lane < MaxShards {
		shard := uint8(lane)
		if err := p.erase(shard); err != nil {
			p.breaker.Failed(BreakerAt{Shard: shard}, "delete", err)
		}
	}
	for part := range slices.Chunk(sessions, batch) {
		var wrote []*Session
		failed := 0
		p.saveAll(p.take(part), func(s *Session, did bool, err error) {
			p.saved(s, err, how)
			switch {
			case err != nil:
				failed++
				p.breaker.Failed(p.at(s), "save", err)
			case did:
				wrote = append(wrote, s)
			}
		})
		for _, s := range wrote { // after the failures, so that a record that fails again is blamed
			p.breaker.Took(p.at(s))
		}
		if failed > 0 && len(wrote) == 0 {
			p.thin()
			return
		}
		// Requests wait for these claims; the rest of the lane does not matter as much.
		for p.shared == nil && len(p.jobs) > 0 {
			p.writeNow(<-p.jobs)
		}
	}
}

// saved records the result of writing a session.
func (p *Persister) saved(s *Session, err error, how urgency) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.saving, s.digest)
	if err != nil && how != atLast && p.unsaved[s.digest] == nil { // try again later
		p.unsaved[s.digest] = s
	}
}

// changed returns the changed sessions by lane, including lanes with doomed sessions only. Sessions
// with the fewest failures come first.
func (p *Persister) changed(how urgency) map[int][]*Session {
	all := map[int][]*Session{}
	p.mu.Lock()
	for digest := range p.doomed {
		all[int(p.shard(digest))] = nil
	}
	for digest, s := range p.unsaved {
		if how == asDue && !s.health.Due() {
			continue
		}
		lane := int(p.shard(digest))
		if p.shared != nil && s.health.Failures() > 0 {
			lane = failingLane
		}
		all[lane] = append(all[lane], s)
	}
	p.mu.Unlock()
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
func (p *Persister) take(changed []*Session) []*Session {
	sessions := make([]*Session, 0, len(changed))
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range changed {
		s := p.unsaved[c.digest]
		// a doomed session would be deleted after the write
		if _, doomed := p.doomed[c.digest]; s == nil || doomed {
			continue
		}
		delete(p.unsaved, s.digest)
		p.saving[s.digest] = s
		sessions = append(sessions, s)
	}
	return sessions
}

// thin drops evicted sessions that wait to be written, beyond a quarter of the memory bound.
func (p *Persister) thin() {
	var gone []*Session
	p.mu.Lock()
	for _, s := range p.unsaved {
		// Sessions that are still in memory need no extra room.
		if s.Gone() {
			gone = append(gone, s)
		}
	}
	p.mu.Unlock()
	room := p.store.maxBytes() / 4
	for _, s := range gone {
		s.Lock()
		room -= s.size()
		s.Unlock()
		if room < 0 {
			p.mu.Lock()
			if p.unsaved[s.digest] == s {
				delete(p.unsaved, s.digest)
			}
			p.mu.Unlock()
		}
	}
}

// saveAll saves the sessions that have changed and reports the result of each to done.
func (p *Persister) saveAll(sessions []*Session, done func(s *Session, wrote bool, err error)) {
	if p.shared != nil {
		p.publishAll(sessions, done)
		return
	}
	records, of := make([]Record, 0, len(sessions)), make([]*Session, 0, len(sessions))
	for _, s := range sessions {
		if s.deleted.Load() {
			done(s, false, nil)
			continue
		}
		snapshot, _, same := p.draft(s)
		if same {
			done(s, false, nil)
			continue
		}
		if snapshot == nil { // the claim was refused
			err := p.guarded(func(ctx context.Context) error { return p.back.Delete(ctx, s.digest) })
			done(s, err == nil, err)
			continue
		}
		records, of = append(records, p.record(s, snapshot)), append(of, s)
	}
	for i, err := range p.saveEach(records) {
		reuse.Recycle(records[i].Snapshot)
		done(of[i], err == nil, err)
	}
}
