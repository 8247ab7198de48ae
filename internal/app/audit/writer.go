// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// The pauses between attempts at a failing store double from firstPause to maxPause.
	firstPause, maxPause = 100 * time.Millisecond, 15 * time.Second
	// writeTimeout bounds the writing of one batch.
	writeTimeout = 30 * time.Second
	// pruneAfter and pruneEvery schedule the deletion of old records.
	pruneAfter, pruneEvery = time.Minute, time.Hour
)

func (q *Queue) run(ctx context.Context) {
	defer close(q.done)
	prune := time.Now().Add(pruneAfter)
	for open := true; open; {
		open = q.wait()
		more := true
		// The context has ended: Close counts the rest as lost.
		if err := guarded(func() error { more = q.drain(ctx); return nil }); err != nil {
			q.options().Log("audit records were not written", err)
		}
		if !more {
			return
		}
		if open && time.Now().After(prune) {
			prune = time.Now().Add(pruneEvery)
			q.prune(ctx)
		}
	}
}

// drain writes all waiting records. It returns false if the context ended before.
func (q *Queue) drain(ctx context.Context) bool {
	for batch := q.take(); len(batch) > 0; batch = q.take() {
		if !q.deliver(ctx, batch) {
			return false
		}
		q.acknowledge(batch)
	}
	return true
}

func (q *Queue) prune(ctx context.Context) {
	o := q.options()
	if o.Retention <= 0 {
		return
	}
	if err := guarded(func() error {
		_, err := q.store.Prune(ctx, time.Now().Add(-o.Retention))
		return err
	}); err != nil {
		o.Log("audit records past their retention were not removed", err)
	}
}

// ErrPanic is the error of a store that panics.
var ErrPanic = errors.New("recovered from a panic")

func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			// The value may quote a record, so the error has its type only.
			err = fmt.Errorf("%w: %T", ErrPanic, p)
		}
	}()
	return f()
}

// wait blocks until a batch is full or the interval has passed. It returns false once the queue is closing.
func (q *Queue) wait() bool {
	timer := time.NewTimer(q.options().Interval)
	defer timer.Stop()
	select {
	case <-q.closes:
		return false
	case <-q.wake:
	case <-timer.C:
	}
	return true
}

// take takes the next batch off the queue, sums first.
func (q *Queue) take() []*Record {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.waiting), q.o.Batch)
	batch := make([]*Record, 0, len(q.sums)+n)
	// Sums are older than all waiting records.
	for _, sum := range q.sums {
		batch = append(batch, sum)
	}
	clear(q.sums)
	for range n {
		batch = append(batch, q.pop())
	}
	for _, r := range batch {
		// Records are cleaned here, off the path of requests.
		r.clean()
	}
	q.writing = batch
	return batch
}

// deliver writes a batch, with any number of attempts, until the context ends.
func (q *Queue) deliver(ctx context.Context, batch []*Record) bool {
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		err := q.write(ctx, batch)
		if err == nil {
			return true
		}
		q.counters.WriteErrors.Add(1)
		// The first error is logged, and then one for each of the longest pauses.
		if pause == firstPause || pause == maxPause {
			q.options().Log("audit records were not written and will be tried again", err)
		}
		closes := q.closes
		if q.closing() { // attempts go on until the context ends
			closes, pause = nil, firstPause
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-closes:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
		timer.Stop()
	}
}

func (q *Queue) closing() bool {
	select {
	case <-q.closes:
		return true
	default:
		return false
	}
}

func (q *Queue) write(ctx context.Context, batch []*Record) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return guarded(func() error { return q.store.Write(ctx, batch) })
}

func (q *Queue) acknowledge(batch []*Record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.writing, q.since = nil, time.Now()
	q.counters.Written.Add(turns(batch))
}

func turns(records []*Record) (n int64) {
	for _, r := range records {
		n += r.Turns
	}
	return n
}
