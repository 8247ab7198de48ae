// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"slices"
)

// ErrWanted reports that a client's request came during background work.
var ErrWanted = errors.New("queue: the box is wanted")

// AnySlot lets the queue choose.
const AnySlot = -1

// Spare is background work: it runs alone, while no request runs or waits, and ends as soon as one
// comes.
type Spare struct {
	// Slot is the number of the work's slot, from 0.
	Slot int
	// Context ends with ErrWanted when a request comes.
	Context context.Context //nolint:containedctx // it is what a caller of Spare gets

	queue *Queue
	name  string
	ready chan struct{} // closed when the work may run
	stop  context.CancelCauseFunc
}

// Spare waits until the server is idle. With AnySlot, the work gets the slot of the conversation
// with that name, or else the slot with the prefix that costs least to read again. The caller must
// call Leave at the end.
func (q *Queue) Spare(ctx context.Context, name string, slot int) (*Spare, error) {
	s := &Spare{Slot: slot, queue: q, name: name, ready: make(chan struct{})}
	s.Context, s.stop = context.WithCancelCause(ctx)
	q.mu.Lock()
	q.spares = append(q.spares, s)
	q.offer()
	q.mu.Unlock()
	select {
	case <-s.ready:
		return s, nil
	case <-ctx.Done():
		s.Leave()
		return nil, context.Cause(ctx)
	}
}

// Leave ends the work, or the wait for it. Further calls do nothing.
func (s *Spare) Leave() {
	q := s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	s.stop(nil)
	q.spares = slices.DeleteFunc(q.spares, func(o *Spare) bool { return o == s })
	if q.spare == s {
		q.spare = nil
	}
	q.offer()
}

// offer starts the next background work if the server is idle.
func (q *Queue) offer() {
	if q.spare != nil || q.waiting > 0 || q.slots.busy > 0 || len(q.spares) == 0 {
		return
	}
	q.spare, q.spares = q.spares[0], q.spares[1:]
	if q.spare.Slot < 0 {
		q.spare.Slot = q.slots.best(q.spare.name)
	}
	close(q.spare.ready)
}

// interrupt cancels the running background work in favor of a request.
func (q *Queue) interrupt() {
	if q.spare != nil {
		q.spare.stop(ErrWanted)
		q.spare = nil
	}
}

// Bare lists the free slots without a conversation's prefix.
func (q *Queue) Bare() (slots []int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.slots.list[:q.slots.limit] {
		if c := &q.slots.list[i]; !c.busy && c.used == 0 {
			slots = append(slots, i)
		}
	}
	return slots
}

// Forget reports that the server has lost all prefixes.
func (q *Queue) Forget() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.slots.list {
		if c := &q.slots.list[i]; c.busy {
			c.lost = true
		} else {
			*c = slot{}
		}
	}
}
