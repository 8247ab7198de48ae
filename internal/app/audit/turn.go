// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import "time"

// Turn is a turn that has begun and not ended: should the process end first, it
// goes on record as interrupted.
type Turn struct {
	record     Record // what is known of it at its beginning
	next, prev *Turn  // in the ring of the queue, nil when it has ended
}

// Begin notes a turn that begins. The record's id, time and what identifies it
// must be set; the queue keeps a copy.
func (q *Queue) Begin(r *Record) *Turn {
	t := &Turn{record: *r}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		q.counters.Drop(r.Turns)
		return t
	}
	last := q.open.prev
	t.prev, t.next = last, &q.open
	last.next, q.open.prev = t, t
	q.opened++
	return t
}

// End takes the record of a turn that has begun. It does nothing if that turn
// has ended before, or is on record as interrupted already. The record is the
// queue's from now on.
func (q *Queue) End(t *Turn, r *Record) {
	q.mu.Lock()
	full := false
	if t.next != nil {
		q.unlink(t)
		full = q.add(r)
	}
	q.mu.Unlock()
	if full {
		q.rouse()
	}
}

func (q *Queue) unlink(t *Turn) {
	t.prev.next, t.next.prev = t.next, t.prev
	t.next, t.prev = nil, nil
	q.opened--
}

// interrupt puts all open turns on record as interrupted. The queue is locked.
func (q *Queue) interrupt(now time.Time) {
	for q.open.next != &q.open {
		t := q.open.next
		q.unlink(t)
		t.record.Outcome = Interrupted
		t.record.Total = now.Sub(t.record.At)
		record := t.record
		q.add(&record)
	}
}
