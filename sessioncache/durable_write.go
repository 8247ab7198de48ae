// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package sessioncache

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/breaker"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire/reuse"
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
			d.at(j)
		case <-d.soon:
			if gathered == nil {
				gathered = time.After(gather)
			}
		case <-gathered:
			gathered = nil
			d.flush(false)
		case <-tick.C:
			d.flush(false)
		case done := <-d.flushes:
			d.flush(false)
			close(done)
		case <-d.stop:
			for len(d.jobs) > 0 {
				d.at(<-d.jobs)
			}
			d.flush(true)
			return
		}
	}
}

// at writes at once what requests wait for: all of it together.
func (d *Durable) at(j job) {
	waiting := []job{j}
	for len(d.jobs) > 0 && len(waiting) < batch {
		waiting = append(waiting, <-d.jobs)
	}
	erased := d.erase() // before anything is written under the same keys
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
		err := d.save(records)
		for _, w := range waiting[:n] {
			w.done <- err
		}
		waiting = waiting[n:]
	}
}

// erase deletes what is doomed. What cannot be deleted now is tried again.
func (d *Durable) erase() error {
	d.mu.Lock()
	doomed := slices.Collect(maps.Keys(d.doomed))
	d.mu.Unlock()
	for _, digest := range doomed {
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
			err = breaker.ErrPanicked
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

// flush writes what has changed, and what conversations have come to. Those who claim
// something need not wait for all of it.
func (d *Durable) flush(last bool) {
	if err := d.erase(); err != nil {
		d.breaker.Failed("delete", err)
	}
	for part := range slices.Chunk(d.changed(), batch) {
		sessions := d.take(part)
		err := d.saveAll(sessions)
		d.mu.Lock()
		if err != nil && !last { // they wait for better times
			for digest, s := range d.saving {
				if d.unsaved[digest] == nil {
					d.unsaved[digest] = s
				}
			}
		}
		clear(d.saving)
		d.mu.Unlock()
		if err != nil {
			d.breaker.Failed("save", err)
			d.thin()
			return
		}
		for len(d.jobs) > 0 {
			d.at(<-d.jobs)
		}
	}
	d.saveOwn(last)
}

// changed are the sessions that have changed, in the order in which they began: so those
// that lie side by side in a file are written together.
func (d *Durable) changed() []*Session {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.SortedFunc(maps.Values(d.unsaved), func(a, b *Session) int { return cmp.Compare(a.Number(), b.Number()) })
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

func (d *Durable) saveAll(sessions []*Session) error {
	if d.shared != nil {
		return d.publishAll(sessions)
	}
	records := make([]Record, 0, len(sessions))
	for _, s := range sessions {
		if s.deleted.Load() {
			continue
		}
		snapshot, _, same := d.draft(s)
		if same {
			continue
		}
		if snapshot == nil { // what was claimed was refused
			if err := d.guarded(func(ctx context.Context) error { return d.back.Delete(ctx, Digest([]byte(s.digest))) }); err != nil {
				return err
			}
			continue
		}
		records = append(records, d.record(s, snapshot))
	}
	err := d.save(records)
	for i := range records {
		reuse.Recycle(records[i].Snapshot)
	}
	return err
}
