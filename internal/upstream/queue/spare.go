// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"slices"
)

// ErrWanted reports that somebody has come while the box did work that nobody
// waits for.
var ErrWanted = errors.New("queue: the box is wanted")

// AnySlot lets the queue choose.
const AnySlot = -1

// Spare is work that nobody waits for: it runs alone, while no request runs or
// waits, and ends as soon as one comes.
type Spare struct {
	// Slot is the number of the slot it runs in, from 0.
	Slot int
	// Context ends with ErrWanted when somebody comes.
	Context context.Context //nolint:containedctx // it is what a caller of Spare gets

	queue *Queue
	name  string
	ready chan struct{} // closed when it may run
	stop  context.CancelCauseFunc
}

// Spare waits until the box has nothing to do. The work continues the
// conversation of that name, if it has one, and takes that one's slot; or else
// the one given, or with AnySlot the one whose prefix is missed least. Leave
// must be called when it is over.
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

// Leave ends the work, or the wait for it. It may be called more than once.
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

// offer lets the next work run that nobody waits for, if nobody is there.
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

// interrupt ends work that nobody waits for: somebody is here.
func (q *Queue) interrupt() {
	if q.spare != nil {
		q.spare.stop(ErrWanted)
		q.spare = nil
	}
}

// Bare lists the slots that hold no conversation's prefix.
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

// Forget reports that the box has lost all prefixes.
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
