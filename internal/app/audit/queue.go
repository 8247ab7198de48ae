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

// Options configure a queue. The zero value is ready to use.
type Options struct {
	// Batch is the number of records that are written at once, without waiting any longer, and the
	// maximum of one batch. Default: 500.
	Batch int
	// Interval is the time that a record waits for others of its batch. A killed process loses at
	// most the records of this time, and those of the batch being written. Default: 1s.
	Interval time.Duration
	// Room is the number of records that wait while the store is down or slow. Beyond it the oldest
	// lose their details and are counted together. Default: 16384.
	Room int
	// ContentRoom is the maximum of waiting content, in bytes. Beyond it the oldest records lose
	// their content. Default: 67108864 (64 MiB).
	ContentRoom int
	// Retention is how long records are kept. Default: 0, for ever.
	Retention time.Duration
	// Log receives errors and losses. Optional.
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

// Counters count the work of one queue or of several.
type Counters struct {
	// Written counts turns that a store has acknowledged.
	Written atomic.Int64
	// Coalesced counts turns that lost their details for lack of room, and Stripped turns that lost
	// their content only.
	Coalesced atomic.Int64
	// Stripped: see Coalesced.
	Stripped atomic.Int64
	// Dropped counts turns without any record, because no store had taken them before a queue was
	// closed. DroppedAt is the last such moment, in Unix nanoseconds.
	Dropped atomic.Int64
	// DroppedAt: see Dropped.
	DroppedAt atomic.Int64
	// WriteErrors counts failed writes of batches.
	WriteErrors atomic.Int64
}

// Drop counts turns that have lost their records.
func (c *Counters) Drop(turns int64) {
	if turns > 0 {
		c.DroppedAt.Store(time.Now().UnixNano())
		c.Dropped.Add(turns)
	}
}

// Stats describes the contents of a queue.
type Stats struct {
	// Waiting is the number of records that wait or are being written.
	Waiting int
	// Open is the number of turns that have begun and not ended.
	Open int
	// Lag is the age of the oldest waiting record.
	Lag time.Duration
}

// Queue takes records and writes them in batches, in its own goroutine. Its methods are safe for
// concurrent use. All but Close return without waiting for the store.
type Queue struct {
	store    Store
	counters *Counters

	mu      sync.Mutex
	o       Options
	waiting []*Record
	bare    int // number of records at the start of waiting without content
	content int // bytes of content in waiting
	sums    groups
	writing []*Record // taken by the writer, not acknowledged yet
	since   time.Time
	open    OpenTurn // head of the ring of open turns
	opened  int
	closed  bool

	wake   chan struct{} // there is a batch
	closes chan struct{}
	done   chan struct{}
	cancel context.CancelFunc // ends the current write
}

// NewQueue starts a queue in front of a store. The queue closes the store when it is closed. It
// adds to counters, which may be nil.
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
	// A shorter interval or a smaller batch counts at once.
	q.rouse()
}

func (q *Queue) options() Options {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.o
}

// Add takes a record of a finished turn. The queue owns the record from now on.
func (q *Queue) Add(r *Record) {
	q.mu.Lock()
	full := q.add(r)
	q.mu.Unlock()
	if full {
		q.rouse()
	}
}

// add takes a record and reports whether a batch is full. The queue must be locked.
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
	// The store is too slow: the oldest records lose their details.
	for len(q.waiting) > q.o.Room {
		oldest := q.pop()
		q.counters.Coalesced.Add(oldest.Turns)
		q.sums.add(oldest)
	}
	// Beyond ContentRoom the oldest records lose their content, and keep their details.
	for ; q.content > q.o.ContentRoom && q.bare < len(q.waiting); q.bare++ {
		if r := q.waiting[q.bare]; r.Content != nil {
			q.content -= r.Content.size()
			r.Content = nil
			q.counters.Stripped.Add(1)
		}
	}
	return len(q.waiting) >= q.o.Batch
}

// pop takes the oldest record off the queue. The queue must be locked and not empty.
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
	// The writer has yet to take an earlier wake-up.
	default:
	}
}

// Stats returns the current contents.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := Stats{Waiting: len(q.waiting) + len(q.sums) + len(q.writing), Open: q.opened}
	if s.Waiting > 0 {
		s.Lag = time.Since(q.since)
	}
	return s
}

// Close records the open turns as interrupted, writes the waiting records until the context is
// done, and closes the store. Later records are dropped and counted.
func (q *Queue) Close(ctx context.Context) error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		<-q.done
		return nil
	}
	// Before closed is set: the records of open turns are still taken.
	q.interrupt(time.Now())
	q.closed = true
	q.mu.Unlock()
	stop := context.AfterFunc(ctx, q.cancel)
	defer stop()
	close(q.closes)
	<-q.done
	q.cancel()
	q.mu.Lock()
	// The context has ended before the rest was written.
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
