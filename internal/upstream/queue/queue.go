// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package queue lets a bounded number of requests at a time through to a box
// that runs a model: fairly between people, conversations before side requests,
// and each conversation to the slot that holds its prefix.
package queue

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrFull reports that as many requests wait as may, and as many of this person as of
// any other.
var ErrFull = errors.New("queue: full")

// ErrPatience reports that a request has waited as long as it may.
var ErrPatience = errors.New("queue: waited too long")

const (
	// firstGuess is how long a request is expected to take before any has ended.
	firstGuess = 10 * time.Second
	// forget is the weight of the latest request in the mean of their durations.
	forget = 0.2
	// sideAge is how long a side request waits behind conversations before it
	// counts as one: a stream of conversations must not starve it.
	sideAge = 30 * time.Second
)

// Limits bound a queue.
type Limits struct {
	// Slots is how many requests run at a time.
	Slots int
	// Waiting is how many more may wait.
	Waiting int
	// Patience is how long one may wait, 0 for as long as its client does.
	Patience time.Duration
}

// Ticket says who asks, and for what.
type Ticket struct {
	// Person is who the turn is counted for: people take turns.
	Person string
	// Lineage names the conversation, so that it finds its slot again.
	Lineage string
	// Side tells a side request: a title, a routing question.
	Side bool
	// Size is the length of the prompt, in bytes.
	Size int
}

// Queue is the queue before one upstream. Its methods may be called
// concurrently.
type Queue struct {
	mu      sync.Mutex
	limits  Limits
	slots   slots
	people  map[string]*person
	waiting int
	took    time.Duration // the mean of late, 0 before any has ended
	count   uint64        // of requests that came
	spares  []*Spare      // waiting until nobody is there
	spare   *Spare        // running, nil for none
}

// New makes a queue.
func New(l Limits) *Queue {
	q := &Queue{people: make(map[string]*person)}
	q.SetLimits(l)
	return q
}

// SetLimits changes the limits. Requests that run or wait keep their places.
func (q *Queue) SetLimits(l Limits) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limits = l
	q.slots.resize(max(1, l.Slots))
	q.dispatch()
}

// Turn is a request's place in the queue, and then in a slot.
type Turn struct {
	// Ahead is how many requests waited in front of it when it came, and
	// Expected how long it was expected to wait.
	Ahead int
	// Expected: see Ahead.
	Expected time.Duration
	// Slot is the number of the slot it runs in, from 0.
	Slot int

	queue   *Queue
	ticket  Ticket
	person  *person
	ready   chan struct{} // closed when it has a slot, or has lost its place
	err     error         // why it has lost its place, set before
	number  uint64        // in the order they came
	came    time.Time
	started time.Time
}

// Enter gives a request its place. Where as many wait as may, whoever has most
// waiting makes room for who has fewer. It returns ErrFull if there is none; the
// turn then tells only how long the queue is.
func (q *Queue) Enter(t Ticket) (*Turn, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	turn := &Turn{queue: q, ticket: t, ready: make(chan struct{}), came: time.Now(), Ahead: q.waiting, Slot: -1}
	turn.Expected = q.expected()
	if q.slots.free() == 0 && q.waiting >= q.limits.Waiting && !q.makeRoom(t.Person) {
		return turn, ErrFull
	}
	q.interrupt()
	p := q.people[t.Person]
	if p == nil {
		p = &person{name: t.Person}
		q.people[t.Person] = p
	}
	q.count++
	turn.person, turn.number = p, q.count
	p.add(turn)
	q.waiting++
	q.dispatch()
	return turn, nil
}

// makeRoom takes a place from whoever has most requests waiting, if that is more
// than somebody has who gets one more.
func (q *Queue) makeRoom(name string) bool {
	own := 0
	if p := q.people[name]; p != nil {
		own = len(p.turns)
	}
	var most *person
	for _, p := range q.people {
		if len(p.turns) > own+1 && (most == nil || p.fuller(most)) {
			most = p
		}
	}
	if most == nil {
		return false
	}
	t := most.last()
	most.remove(t)
	q.waiting--
	t.person, t.err = nil, ErrFull
	close(t.ready)
	return true
}

// Wait returns when the turn has a slot. If the client leaves first, or the
// queue's patience ends, it gives the place up and says why. ErrFull tells that
// somebody with fewer requests has taken the place.
func (t *Turn) Wait(ctx context.Context) error {
	select {
	case <-t.ready:
		return t.err
	default:
	}
	var end <-chan time.Time
	t.queue.mu.Lock()
	patience := t.queue.limits.Patience
	t.queue.mu.Unlock()
	if patience > 0 {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		end = timer.C
	}
	select {
	case <-t.ready:
		return t.err
	case <-ctx.Done():
		t.Leave()
		return context.Cause(ctx)
	case <-end:
		t.Leave()
		return ErrPatience
	}
}

// Waits reports whether it has no slot by now.
func (t *Turn) Waits() bool {
	select {
	case <-t.ready:
		return false
	default:
		return true
	}
}

// Waited is how long the turn waited for its slot, so far if it has none.
func (t *Turn) Waited() time.Duration {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	if t.started.IsZero() {
		return time.Since(t.came)
	}
	return t.started.Sub(t.came)
}

// Leave gives the slot back, or the place in the queue. It may be called more
// than once.
func (t *Turn) Leave() {
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case t.person == nil:
		return
	case t.started.IsZero():
		t.person.remove(t)
		q.waiting--
	default:
		took := time.Since(t.started)
		q.slots.give(t.Slot)
		t.person.running--
		t.person.ended = time.Now()
		if !t.ticket.Side {
			q.learn(took)
		}
	}
	if t.person.idle() {
		delete(q.people, t.person.name)
	}
	t.person = nil
	q.dispatch()
}

// Length tells how many requests run and how many wait.
func (q *Queue) Length() (running, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.slots.busy, q.waiting
}

// Expected is how long a request that came now is expected to wait.
func (q *Queue) Expected() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.expected()
}

func (q *Queue) expected() time.Duration {
	if q.waiting == 0 && q.slots.free() > 0 {
		return 0
	}
	return q.mean() * time.Duration(q.waiting+1) / time.Duration(q.slots.limit)
}

// RetryAfter is when a place is likely to be free again.
func (q *Queue) RetryAfter() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return max(time.Second, q.mean()/time.Duration(q.slots.limit))
}

// dispatch fills the free slots.
func (q *Queue) dispatch() {
	for q.waiting > 0 && q.slots.free() > 0 {
		t := q.next()
		t.person.remove(t)
		q.waiting--
		t.Slot = q.slots.take(t.ticket)
		t.started = time.Now()
		t.person.running++
		close(t.ready)
	}
	if q.waiting == 0 {
		q.offer()
	}
}

// next is the turn to run now: people take turns, conversations before side
// requests.
func (q *Queue) next() *Turn {
	now := time.Now()
	var best *Turn
	for _, p := range q.people {
		t := p.first(now)
		if t == nil {
			continue
		}
		if best == nil || t.before(best, now) {
			best = t
		}
	}
	return best
}

func (q *Queue) mean() time.Duration {
	if q.took == 0 {
		return firstGuess
	}
	return q.took
}

func (q *Queue) learn(took time.Duration) {
	if q.took == 0 {
		q.took = took
		return
	}
	q.took += time.Duration(forget * float64(took-q.took))
}
