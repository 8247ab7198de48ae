// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"
)

// exchangeEvery is the number of intervals after which processes that share a backend
// tell one another how many requests conversations have run.
const exchangeEvery = 10

// own is what a durable store knows of the record that is its own, in which it keeps how
// many requests conversations have run. Once the store writes, its lane has it.
type own struct {
	health    RecordHealth
	stale     atomic.Bool // it is to be written although nothing was counted
	changes   uint64      // of what is remembered, when it was last written
	version   Version     // of what was last read from a backend that is shared
	tried     Version     // of what was last written there, as far as can be told
	exchanged time.Time   // when that was; the goroutine that writes has it
}

// ownRecord makes the record. Only at the end of the process nothing is missing that
// the store has been told.
func (d *Durable) ownRecord(last bool) (r Record, changes uint64) {
	since := time.Time{}
	if last {
		since = d.Memory.Stats().Since
	}
	w := PackedWriter{Out: append([]byte{}, snapshotForm)}
	w.Time(since, time.Time{})
	w.Out, changes = d.runs.Snapshot(w.Out)
	if d.shared == nil {
		d.mu.Lock()
		w.Out = append(w.Out, d.names[:]...)
		d.mu.Unlock()
	}
	r.Used, r.Snapshot = time.Now(), d.seals.Seal(nil, w.Out, r.Digest[:])
	return r, changes
}

// saveOwn writes the record.
func (d *Durable) saveOwn(last bool) {
	if d.shared != nil {
		d.exchange(last)
		return
	}
	if !d.owns() {
		return
	}
	stale := d.own.stale.Swap(false)
	r, changes := d.ownRecord(last)
	if changes == d.own.changes && !last && !stale {
		return
	}
	if err := d.save([]Record{r}); err != nil {
		d.own.stale.Store(stale)
		d.breaker.Failed(BreakerAt{Record: &d.own.health}, "save", err)
		return
	}
	d.breaker.Took(BreakerAt{Record: &d.own.health})
	d.own.changes = changes
	d.runs.Kept()
}

// exchange takes in what others have counted, and adds to that what was counted here.
func (d *Durable) exchange(last bool) {
	err := d.guarded(func(ctx context.Context) error {
		there, now, err := d.shared.Fetch(ctx, Digest{}, d.own.version)
		for range attempts {
			if err != nil {
				return err
			}
			if now == d.own.tried && now != 0 { // it had come to that
				d.runs.Kept()
			}
			if now != d.own.version && now != 0 {
				d.recall(there)
				d.own.version = now
			}
			r, changes := d.ownRecord(last)
			if changes == d.own.changes && !last {
				return nil
			}
			w := &Swap{Record: r, Have: d.own.version, Next: NewVersion()}
			d.own.tried = w.Next
			d.shared.Swap(ctx, []*Swap{w})
			there, now, err = w.Other, w.Now, w.Err
			if err == nil && now == d.own.tried {
				d.own.version, d.own.changes = now, changes
				d.runs.Kept()
				return nil
			}
		}
		return nil // others are faster, and will be slower once
	})
	if err != nil {
		d.breaker.Failed(d.ownPlace(), "save", err)
	}
}

// ownPlace is where the record lies.
func (d *Durable) ownPlace() BreakerAt {
	return BreakerAt{Shard: d.shard(Digest{}), Record: &d.own.health}
}

// remember reads the record when the store begins.
func (d *Durable) remember() {
	var sealed []byte
	err := d.guarded(func(ctx context.Context) (err error) {
		if d.shared != nil {
			d.own.exchanged = time.Now()
			sealed, d.own.version, err = d.shared.Fetch(ctx, Digest{}, 0)
			return err
		}
		sealed, err = d.back.Load(ctx, Digest{})
		return err
	})
	if err != nil {
		d.breaker.Failed(d.ownPlace(), "load", err)
		return
	}
	if since := d.recall(sealed); !since.IsZero() && since.Before(d.Memory.stats.Since) {
		d.Memory.stats.Since = since
	}
}

// recall reads what the record tells, and returns since when the process that wrote it
// at its end had been told everything.
func (d *Durable) recall(sealed []byte) (since time.Time) {
	if len(sealed) == 0 {
		return since
	}
	var own Digest
	plain, err := d.seals.Open(sealed, own[:])
	if err == nil && (len(plain) == 0 || plain[0] != snapshotForm) {
		err = ErrNewer
	}
	if err != nil {
		d.o.Failed("restore", err)
		return since
	}
	r := PackedReader{In: plain[1:]}
	since = r.Time(time.Time{})
	if d.runs.Restore(&r); r.Bad {
		d.o.Failed("restore", ErrSnapshot)
		return time.Time{}
	}
	if d.shared == nil && len(r.In) == len(d.names) {
		d.names = secret.Key(r.In)
	}
	return since
}
