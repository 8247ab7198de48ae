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

// storeRecord is the state of the store's own record, with the lengths of conversations. Once the store
// writes, only the holder of the record's lane may use it.
type storeRecord struct {
	health    RecordHealth
	stale     atomic.Bool // the record must be written even without new counts
	changes   uint64      // number of changes when it was last written
	version   Version     // last read from a shared backend
	tried     Version     // last written there, perhaps in vain
	exchanged time.Time   // time of the last exchange, for the writing goroutine only
}

// makeStoreRecord makes the record.
func (p *Persister) makeStoreRecord(last bool) (r Record, changes uint64) {
	since := time.Time{}
	// Only the last record of a process can claim that no session was forgotten since then.
	if last {
		since = p.store.unforgotten(time.Time{})
	}
	w := PackedWriter{Out: append([]byte{}, snapshotForm)}
	w.Time(since, time.Time{})
	w.Out, changes = p.store.runs.Snapshot(w.Out)
	// A shared backend stores no key.
	if p.shared == nil {
		p.mu.Lock()
		w.Out = append(w.Out, p.names[:]...)
		p.mu.Unlock()
	}
	r.Used, r.Snapshot = time.Now(), p.seals.Seal(nil, w.Out, r.Digest[:])
	return r, changes
}

// saveStoreRecord writes the record.
func (p *Persister) saveStoreRecord(last bool) {
	if p.shared != nil {
		p.exchangeCounts(last)
		return
	}
	if !p.isInUse() {
		return
	}
	stale := p.storeRecord.stale.Swap(false)
	r, changes := p.makeStoreRecord(last)
	if changes == p.storeRecord.changes && !last && !stale {
		return
	}
	if err := p.save([]Record{r}); err != nil {
		p.storeRecord.stale.Store(stale)
		p.breaker.Failed(BreakerAt{Record: &p.storeRecord.health}, "save", err)
		return
	}
	p.breaker.Took(BreakerAt{Record: &p.storeRecord.health})
	p.storeRecord.changes = changes
	p.store.runs.Kept()
}

// exchangeCounts merges the counts of other processes, and adds the counts of this one to theirs.
func (p *Persister) exchangeCounts(last bool) {
	err := p.guarded(func(ctx context.Context) error {
		there, now, err := p.shared.Fetch(ctx, Digest{}, p.storeRecord.version)
		for range attempts {
			if err != nil {
				return err
			}
			if now == p.storeRecord.tried && now != 0 { // an earlier write had succeeded after all
				p.store.runs.Kept()
			}
			if now != p.storeRecord.version && now != 0 {
				p.recall(there)
				p.storeRecord.version = now
			}
			r, changes := p.makeStoreRecord(last)
			if changes == p.storeRecord.changes && !last {
				return nil
			}
			w := &Swap{Record: r, Have: p.storeRecord.version, Next: NewVersion()}
			p.storeRecord.tried = w.Next
			p.shared.Swap(ctx, []*Swap{w})
			there, now, err = w.Other, w.Now, w.Err
			if err == nil && now == p.storeRecord.tried {
				p.storeRecord.version, p.storeRecord.changes = now, changes
				p.store.runs.Kept()
				return nil
			}
		}
		return nil // other processes were faster; a later exchange will succeed
	})
	if err != nil {
		p.breaker.Failed(p.storeRecordPlace(), "save", err)
	}
}

// storeRecordPlace returns the shard and the health of the record.
func (p *Persister) storeRecordPlace() BreakerAt {
	return BreakerAt{Shard: p.shard(Digest{}), Record: &p.storeRecord.health}
}

// remember reads the record when the store begins.
func (p *Persister) remember() {
	var sealed []byte
	err := p.guarded(func(ctx context.Context) (err error) {
		if p.shared != nil {
			p.storeRecord.exchanged = time.Now()
			sealed, p.storeRecord.version, err = p.shared.Fetch(ctx, Digest{}, 0)
			return err
		}
		sealed, err = p.back.Load(ctx, Digest{})
		return err
	})
	if err != nil {
		p.breaker.Failed(p.storeRecordPlace(), "load", err)
		return
	}
	p.store.unforgotten(p.recall(sealed))
}

// recall restores the counts from the record. It returns the time since which the process that
// wrote the record had forgotten no session.
func (p *Persister) recall(sealed []byte) (since time.Time) {
	if len(sealed) == 0 {
		return since
	}
	var digest Digest
	plain, err := p.seals.Open(sealed, digest[:])
	if err == nil && (len(plain) == 0 || plain[0] != snapshotForm) {
		err = ErrNewer
	}
	if err != nil {
		p.o.Failed("restore", err)
		return since
	}
	r := PackedReader{In: plain[1:]}
	since = r.Time(time.Time{})
	if p.store.runs.Restore(&r); r.Bad {
		p.o.Failed("restore", ErrSnapshot)
		return time.Time{}
	}
	if p.shared == nil && len(r.In) == len(p.names) {
		p.names = secret.Key(r.In)
	}
	return since
}
