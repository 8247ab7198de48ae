// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Options say how records are queued. The zero value is ready to use.
type Options struct {
	// Batch is the number of records from which a batch is written without
	// waiting any longer, and the most that one batch holds. Default: 500.
	Batch int
	// Interval is how long a record waits for others to be written with. What a
	// process that is killed loses is at most what came in this time and while
	// a batch was being written. Default: 1s.
	Interval time.Duration
	// Room is the number of records that wait while the store is down or slow.
	// Beyond it the oldest lose their details and are counted together.
	// Default: 16384.
	Room int
	// ContentRoom is the bytes of content that wait. Beyond it the oldest
	// records lose theirs. Default: 67108864 (64 MiB).
	ContentRoom int
	// Retention is how long records are kept, 0 for ever.
	Retention time.Duration
	// Log is told of errors and of what was lost. Optional.
	Log func(message string, err error)
}

// The defaults of Options.
const (
	DefaultBatch    = 500
	DefaultInterval = time.Second
	defaultRoom     = 16384
	defaultContent  = 64 << 20
)

func (o *Options) defaults() {
	if o.Batch <= 0 {
		o.Batch = DefaultBatch
	}
	if o.Interval <= 0 {
		o.Interval = DefaultInterval
	}
	if o.Room <= 0 {
		o.Room = defaultRoom
	}
	if o.ContentRoom <= 0 {
		o.ContentRoom = defaultContent
	}
	if o.Log == nil {
		o.Log = func(string, error) {}
	}
}

// Counters count what queues do, several of them together if need be.
type Counters struct {
	// Written counts turns that a store has acknowledged.
	Written atomic.Int64
	// Coalesced counts turns that lost their details for want of room, and
	// Stripped turns that lost their content only.
	Coalesced atomic.Int64
	// Stripped: see Coalesced.
	Stripped atomic.Int64
	// Dropped counts turns of which nothing was kept: those that no store had
	// taken when a queue was closed. DroppedAt is when that last happened, in Unix
	// nanoseconds.
	Dropped atomic.Int64
	// DroppedAt: see Dropped.
	DroppedAt atomic.Int64
	// WriteErrors counts batches that a store did not take.
	WriteErrors atomic.Int64
}

// Drop counts turns of which nothing was kept.
func (c *Counters) Drop(turns int64) {
	if turns > 0 {
		c.DroppedAt.Store(time.Now().UnixNano())
		c.Dropped.Add(turns)
	}
}

// Stats is what is waiting in a queue.
type Stats struct {
	// Waiting is the number of records that wait or are being written.
	Waiting int
	// Open is the number of turns that have begun and not ended.
	Open int
	// Lag is the age of the oldest record that waits.
	Lag time.Duration
}

// Queue takes records and writes them in batches, by a goroutine of its own. Its
// methods may be called by several goroutines and never wait for the store, but
// for Close.
type Queue struct {
	store    Store
	counters *Counters

	mu      sync.Mutex
	o       Options
	waiting []*Record
	bare    int // how many at the front of waiting have no content left
	content int // bytes of it in waiting
	sums    groups
	writing []*Record // taken by the writer and not acknowledged
	since   time.Time
	open    Turn // head of the ring of open turns
	opened  int
	closed  bool

	wake   chan struct{} // there is a batch
	closes chan struct{}
	done   chan struct{}
	cancel context.CancelFunc // ends the writing in hand
}

// NewQueue starts a queue in front of a store, which it closes when it is
// closed. Counters are added to; nil for none.
func NewQueue(store Store, o Options, counters *Counters) *Queue {
	if counters == nil {
		counters = new(Counters)
	}
	o.defaults()
	q := &Queue{
		store: store, o: o, counters: counters, sums: groups{},
		wake: make(chan struct{}, 1), closes: make(chan struct{}), done: make(chan struct{}),
	}
	q.open.next, q.open.prev = &q.open, &q.open
	ctx, cancel := context.WithCancel(context.Background())
	q.cancel = cancel
	go q.run(ctx)
	return q
}

// SetOptions changes the options of a running queue.
func (q *Queue) SetOptions(o Options) {
	o.defaults()
	q.mu.Lock()
	q.o = o
	q.mu.Unlock()
	q.rouse()
}

func (q *Queue) options() Options {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.o
}

// Add takes a record of a turn that is over. The record is the queue's from now on.
func (q *Queue) Add(r *Record) {
	q.mu.Lock()
	full := q.add(r)
	q.mu.Unlock()
	if full {
		q.rouse()
	}
}

// add takes a record and reports whether there is a batch. The queue is locked.
func (q *Queue) add(r *Record) bool {
	if q.closed {
		q.counters.Drop(r.Turns)
		return false
	}
	if len(q.waiting)+len(q.writing) == 0 {
		q.since = time.Now()
	}
	q.content += r.Content.size()
	q.waiting = append(q.waiting, r)
	for len(q.waiting) > q.o.Room {
		oldest := q.pop()
		q.counters.Coalesced.Add(oldest.Turns)
		q.sums.add(oldest)
	}
	for ; q.content > q.o.ContentRoom && q.bare < len(q.waiting); q.bare++ {
		if r := q.waiting[q.bare]; r.Content != nil {
			q.content -= r.Content.size()
			r.Content = nil
			q.counters.Stripped.Add(1)
		}
	}
	return len(q.waiting) >= q.o.Batch
}

// pop takes the oldest record off the queue, which is locked and not empty.
func (q *Queue) pop() *Record {
	r := q.waiting[0]
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	q.bare = max(q.bare-1, 0)
	q.content -= r.Content.size()
	return r
}

func (q *Queue) rouse() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Stats tells what is waiting.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := Stats{Waiting: len(q.waiting) + len(q.sums) + len(q.writing), Open: q.opened}
	if s.Waiting > 0 {
		s.Lag = time.Since(q.since)
	}
	return s
}

// Close puts the turns that are open on record as interrupted, writes what is
// waiting, as far as the store takes it before the context is done, and closes
// the store. What is added from now on is dropped and counted.
func (q *Queue) Close(ctx context.Context) error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		<-q.done
		return nil
	}
	q.interrupt(time.Now())
	q.closed = true
	q.mu.Unlock()
	stop := context.AfterFunc(ctx, q.cancel)
	defer stop()
	close(q.closes)
	<-q.done
	q.cancel()
	q.mu.Lock()
	lost := turns(q.waiting) + turns(q.writing)
	for _, sum := range q.sums {
		lost += sum.Turns
	}
	q.mu.Unlock()
	err := q.store.Close()
	if err != nil {
		err = fmt.Errorf("closing the audit store: %w", err)
	}
	if lost > 0 {
		q.counters.Drop(lost)
		err = errors.Join(err, fmt.Errorf("audit: %d turns were not written before the end", lost))
	}
	return err
}
