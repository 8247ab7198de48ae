// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import "time"

// OpenTurn is a turn that has begun and not ended. If the process ends first, the turn is recorded as interrupted.
type OpenTurn struct {
	record     Record    // its fields known at the beginning
	next, prev *OpenTurn // in the queue's ring of open turns, nil after the end
}

// Begin registers a turn. The record's id, time and identifying fields must be set. The queue keeps
// a copy.
func (q *Queue) Begin(r *Record) *OpenTurn {
	t := &OpenTurn{record: *r}
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

// End takes the record of a turn that has begun. It does nothing if the turn has ended before or is
// recorded as interrupted. The queue owns the record from now on.
func (q *Queue) End(t *OpenTurn, r *Record) {
	q.mu.Lock()
	full := false
	if t.next != nil {
		// Close has recorded the other turns as interrupted.
		q.unlink(t)
		full = q.add(r)
	}
	q.mu.Unlock()
	if full {
		q.rouse()
	}
}

func (q *Queue) unlink(t *OpenTurn) {
	t.prev.next, t.next.prev = t.next, t.prev
	t.next, t.prev = nil, nil
	q.opened--
}

// interrupt records all open turns as interrupted. The queue must be locked.
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
