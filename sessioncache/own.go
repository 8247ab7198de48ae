// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"
)

// exchangeEvery is the number of intervals between exchanges of run counts among processes that
// share a backend.
const exchangeEvery = 10

// own is the state of the store's own record, with the lengths of conversations. Once the store
// writes, only the holder of the record's lane may use it.
type own struct {
	health    RecordHealth
	stale     atomic.Bool // the record must be written even without new counts
	changes   uint64      // number of changes when it was last written
	version   Version     // last read from a shared backend
	tried     Version     // last written there, perhaps in vain
	exchanged time.Time   // time of the last exchange, for the writing goroutine only
}

// ownRecord makes the record.
func (d *Durable) ownRecord(last bool) (r Record, changes uint64) {
	since := time.Time{}
	// Only the last record of a process can claim that no session was forgotten since then.
	if last {
		since = d.Memory.Stats().Since
	}
	w := PackedWriter{Out: append([]byte{}, snapshotForm)}
	w.Time(since, time.Time{})
	w.Out, changes = d.runs.Snapshot(w.Out)
	// A shared backend stores no key.
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

// exchange merges the counts of other processes, and adds the counts of this one to theirs.
func (d *Durable) exchange(last bool) {
	err := d.guarded(func(ctx context.Context) error {
		there, now, err := d.shared.Fetch(ctx, Digest{}, d.own.version)
		for range attempts {
			if err != nil {
				return err
			}
			if now == d.own.tried && now != 0 { // an earlier write had succeeded after all
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
		return nil // other processes were faster; a later exchange will succeed
	})
	if err != nil {
		d.breaker.Failed(d.ownPlace(), "save", err)
	}
}

// ownPlace returns the shard and the health of the record.
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

// recall restores the counts from the record. It returns the time since which the process that
// wrote the record had forgotten no session.
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
