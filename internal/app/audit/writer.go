// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

const (
	// A store that fails is tried again after a pause that doubles.
	firstPause, longestPause = 100 * time.Millisecond, 15 * time.Second
	// writeTimeout bounds the writing of one batch.
	writeTimeout = 30 * time.Second
	// pruneAfter and pruneEvery say when old records are looked for.
	pruneAfter, pruneEvery = time.Minute, time.Hour
	// longestText bounds the texts that clients and upstreams may put on record.
	longestText = 256
)

// run is the writer.
func (q *Queue) run(ctx context.Context) {
	defer close(q.done)
	prune := time.Now().Add(pruneAfter)
	for open := true; open; {
		open = q.wait()
		more := true
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

// drain writes what is waiting. It returns false if the time for it is over.
func (q *Queue) drain(ctx context.Context) bool {
	for batch := q.take(); len(batch) > 0; batch = q.take() {
		if !q.deliver(ctx, batch) {
			return false
		}
		q.acknowledge(batch)
	}
	return true
}

// prune removes what is past its retention.
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

// ErrPanic is what a store that panics is taken to have failed with.
var ErrPanic = errors.New("recovered from a panic")

// guarded makes an error of a panic in f. Its value may quote a record: only its
// type is told.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %T", ErrPanic, p)
		}
	}()
	return f()
}

// wait returns when there is a batch, or the interval has passed. It returns
// false once the queue is being closed.
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

// take takes the next batch off the queue, what was counted together first.
func (q *Queue) take() []*Record {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.waiting), q.o.Batch)
	batch := make([]*Record, 0, len(q.sums)+n)
	for _, sum := range q.sums {
		batch = append(batch, sum)
	}
	clear(q.sums)
	for range n {
		batch = append(batch, q.pop())
	}
	for _, r := range batch {
		r.clean()
	}
	q.writing = batch
	return batch
}

// deliver writes a batch, however often that takes. It returns false if the
// time for it is over.
func (q *Queue) deliver(ctx context.Context, batch []*Record) bool {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := q.write(ctx, batch)
		if err == nil {
			return true
		}
		q.counters.WriteErrors.Add(1)
		if pause == firstPause || pause == longestPause {
			q.options().Log("audit records were not written and will be tried again", err)
		}
		closes := q.closes
		if q.closing() { // it is tried until the context ends
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

// write writes a batch once. A store that panics has failed.
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

// clean makes what others have chosen fit for any store: texts that are valid
// UTF-8 without NUL and not too long, numbers that are numbers. A record that a
// store cannot take would keep all others waiting.
func (r *Record) clean() {
	for _, s := range [...]*string{&r.User, &r.Client, &r.Model, &r.StopReason, &r.Reason, &r.Break} {
		*s = Bounded(*s)
	}
	for _, f := range [...]*float64{&r.Cost, &r.ClientCost, &r.USD, &r.ClientUSD} {
		if math.IsNaN(*f) || math.IsInf(*f, 0) {
			*f = 0
		}
	}
}

// Bounded makes a text that others have chosen fit for any store, and to be kept: whoever
// sends megabytes for a name leaves none of them.
func Bounded(s string) string {
	if len(s) > longestText {
		s = strings.Clone(s[:longestText])
	}
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "")
}
