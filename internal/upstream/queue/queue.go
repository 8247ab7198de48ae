// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package queue admits a bounded number of concurrent requests to a local server. It is fair
// between users, prefers conversations to side requests, and gives each conversation the slot that
// has its prefix.
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

// ErrUnreached reports that requests before found no server.
var ErrUnreached = errors.New("queue: server not reached")

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
	// User is the user of the request: users take turns.
	User string
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
	users   map[string]*user
	waiting int
	took    time.Duration // mean duration of requests, 0 before any has ended
	count   uint64        // number of requests so far
	missed  int           // requests in a row that found no server
	spares  []*Spare      // waiting until the server is idle
	spare   *Spare        // running, nil for none
}

// New returns a queue.
func New(l Limits) *Queue {
	q := &Queue{users: make(map[string]*user)}
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

// Place is a request's place in the queue, and then in a slot.
type Place struct {
	// Ahead is the number of waiting requests on arrival, Expected the wait expected then.
	Ahead int
	// Expected: see Ahead.
	Expected time.Duration
	// Slot is the number of the turn's slot, from 0, -1 while it waits.
	Slot int

	queue   *Queue
	ticket  Ticket
	user    *user
	ready   chan struct{} // closed when the turn has a slot or lost its place
	err     error         // reason for a lost place, set before ready is closed
	number  uint64        // order of arrival
	came    time.Time
	started time.Time
}

// Enter gives a request its place. If the queue is full, Enter returns ErrFull and a turn that only
// reports the length of the queue.
func (q *Queue) Enter(t Ticket) (*Place, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	turn := &Place{queue: q, ticket: t, ready: make(chan struct{}), came: time.Now(), Ahead: q.waiting, Slot: -1}
	turn.Expected = q.expected()
	// In a full queue, the user with the most waiting requests loses a place to a user with fewer.
	if q.slots.free() == 0 && q.waiting >= q.limits.Waiting && !q.makeRoom(t.User) {
		return turn, ErrFull
	}
	// Background work must not delay the request.
	q.interrupt()
	p := q.users[t.User]
	if p == nil {
		p = &user{name: t.User}
		q.users[t.User] = p
	}
	q.count++
	turn.user, turn.number = p, q.count
	p.add(turn)
	q.waiting++
	q.dispatch()
	return turn, nil
}

// makeRoom takes a place from the user with the most waiting requests, if that user has more than
// the named one would have.
func (q *Queue) makeRoom(name string) bool {
	already := 0
	if p := q.users[name]; p != nil {
		already = len(p.turns)
	}
	var fullest *user
	for _, p := range q.users {
		// Only a user with more waiting requests than the new user would have loses one, so users
		// do not displace each other in turns.
		if len(p.turns) > already+1 && (fullest == nil || p.fuller(fullest)) {
			fullest = p
		}
	}
	if fullest == nil {
		return false
	}
	t := fullest.last()
	fullest.remove(t)
	q.waiting--
	t.user, t.err = nil, ErrFull
	close(t.ready)
	return true
}

// Wait returns when the turn has a slot. If the client leaves or the maximum wait is over, Wait
// gives up the place and returns the reason. ErrFull reports that a user with fewer requests has
// taken the place.
func (t *Place) Wait(ctx context.Context) error {
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
func (t *Place) Waits() bool {
	select {
	case <-t.ready:
		return false
	default:
		return true
	}
}

// Waited returns how long the turn has waited for its slot.
func (t *Place) Waited() time.Duration {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	if t.started.IsZero() {
		return time.Since(t.came)
	}
	return t.started.Sub(t.came)
}

// Leave releases the slot or the place in the queue. Further calls do nothing.
func (t *Place) Leave() {
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case t.user == nil:
		return
	case t.started.IsZero():
		t.user.remove(t)
		q.waiting--
	default:
		took := time.Since(t.started)
		q.slots.give(t.Slot)
		t.user.running--
		t.user.ended = time.Now()
		// Side requests are short and would distort the expected wait.
		if !t.ticket.Side {
			q.learn(took)
		}
	}
	if t.user.idle() {
		delete(q.users, t.user.name)
	}
	t.user = nil
	q.dispatch()
}

// Reached tells the queue whether a running request has found the server. Once as many requests in a
// row as there are slots have not, the waiting ones lose their places: each of them would have to wait
// for a connection, one after the other.
func (q *Queue) Reached(found bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if found {
		q.missed = 0
		return
	}
	if q.missed++; q.missed < q.slots.limit {
		return
	}
	for name, u := range q.users {
		for len(u.turns) > 0 {
			t := u.last()
			u.remove(t)
			q.waiting--
			t.user, t.err = nil, ErrUnreached
			close(t.ready)
		}
		if u.idle() {
			delete(q.users, name)
		}
	}
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
		t.user.remove(t)
		q.waiting--
		t.Slot = q.slots.take(t.ticket)
		t.started = time.Now()
		t.user.running++
		close(t.ready)
	}
	if q.waiting == 0 {
		q.offer()
	}
}

// next returns the next turn to run.
func (q *Queue) next() *Place {
	now := time.Now()
	var best *Place
	for _, p := range q.users {
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
