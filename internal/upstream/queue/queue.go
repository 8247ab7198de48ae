// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package queue admits a bounded number of concurrent requests to a local server. It is fair
// between users, prefers conversations to side requests, and gives each conversation the slot that
// holds its prefix.
package queue

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrFull reports that the queue is full and no other user has more waiting requests.
var ErrFull = errors.New("queue: full")

// ErrPatience reports that a request has waited longer than the limit.
var ErrPatience = errors.New("queue: waited too long")

const (
	// firstGuess is the expected duration of a request before any has ended.
	firstGuess = 10 * time.Second
	// forget is the weight of the latest request in the mean of their durations.
	forget = 0.2
	// sideAge is how long a side request yields to conversations: a stream of conversations must
	// not starve it.
	sideAge = 30 * time.Second
)

// Limits are the limits of a queue.
type Limits struct {
	// Slots is the number of concurrent requests.
	Slots int
	// Waiting is the maximum number of waiting requests.
	Waiting int
	// Patience is the maximum wait, 0 for no limit.
	Patience time.Duration
}

// Ticket describes a request to the queue.
type Ticket struct {
	// Person is the user of the request: users take turns.
	Person string
	// Conversation names the conversation, which selects its slot.
	Conversation string
	// Side marks a side request: a title, a routing question.
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
	took    time.Duration // mean duration of requests, 0 before any has ended
	count   uint64        // number of requests so far
	spares  []*Spare      // waiting until the server is idle
	spare   *Spare        // running, nil for none
}

// New returns a queue.
func New(l Limits) *Queue {
	q := &Queue{people: make(map[string]*person)}
	q.SetLimits(l)
	return q
}

// SetLimits changes the limits. Running and waiting requests keep their places.
func (q *Queue) SetLimits(l Limits) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limits = l
	q.slots.resize(max(1, l.Slots))
	q.dispatch()
}

// Turn is a request's place in the queue, and then in a slot.
type Turn struct {
	// Ahead is the number of waiting requests on arrival, Expected the wait expected then.
	Ahead int
	// Expected: see Ahead.
	Expected time.Duration
	// Slot is the number of the turn's slot, from 0, -1 while it waits.
	Slot int

	queue   *Queue
	ticket  Ticket
	person  *person
	ready   chan struct{} // closed when the turn has a slot or lost its place
	err     error         // reason for a lost place, set before ready is closed
	number  uint64        // order of arrival
	came    time.Time
	started time.Time
}

// Enter gives a request its place. If the queue is full, Enter returns ErrFull and a turn that only
// reports the length of the queue.
func (q *Queue) Enter(t Ticket) (*Turn, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	turn := &Turn{queue: q, ticket: t, ready: make(chan struct{}), came: time.Now(), Ahead: q.waiting, Slot: -1}
	turn.Expected = q.expected()
	// In a full queue, the user with the most waiting requests loses a place to a user with fewer.
	if q.slots.free() == 0 && q.waiting >= q.limits.Waiting && !q.makeRoom(t.Person) {
		return turn, ErrFull
	}
	// Background work must not delay the request.
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

// makeRoom takes a place from the user with the most waiting requests, if that user has more than
// the named one would have.
func (q *Queue) makeRoom(name string) bool {
	own := 0
	if p := q.people[name]; p != nil {
		own = len(p.turns)
	}
	var most *person
	for _, p := range q.people {
		// Only a user with more waiting requests than the new user would have loses one, so users
		// do not displace each other in turns.
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

// Wait returns when the turn has a slot. If the client leaves or the maximum wait is over, Wait
// gives up the place and returns the reason. ErrFull reports that a user with fewer requests has
// taken the place.
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

// Waits reports whether the turn has no slot yet.
func (t *Turn) Waits() bool {
	select {
	case <-t.ready:
		return false
	default:
		return true
	}
}

// Waited returns how long the turn has waited for its slot.
func (t *Turn) Waited() time.Duration {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	if t.started.IsZero() {
		return time.Since(t.came)
	}
	return t.started.Sub(t.came)
}

// Leave releases the slot or the place in the queue. Further calls do nothing.
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
		// Side requests are short and would distort the expected wait.
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

// Length returns the numbers of running and waiting requests.
func (q *Queue) Length() (running, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.slots.busy, q.waiting
}

// Expected returns the expected wait of a request that came now.
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

// RetryAfter returns the time until a place is likely to be free.
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

// next returns the next turn to run.
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
