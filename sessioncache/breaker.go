// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

// A breaker bounds the time that requests wait for a store that may be slow or down. One budget
// covers all waits of a request. After a shard was slow, no request waits for that shard for a
// while. An immediate error delays no request: it belongs to one record, and the breaker tries that
// record less and less often.

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Breaker guards a store that may be slow or fail.
type Breaker struct {
	budget, rest time.Duration
	failed       func(what string, err error)
	shards       [MaxShards]shard

	// Operations reuse goroutines that have run operations before: their stacks have already grown,
	// and growing a stack costs more than a short operation itself.
	work chan work
	idle atomic.Int64 // approximate number of idle goroutines
	once sync.Once
	end  chan struct{}
}

type work struct {
	*operation
	f func(context.Context) error
}

// mostIdle bounds the number of idle goroutines.
const mostIdle = 32

// ErrPanicked is the error of an operation that panicked.
var ErrPanicked = errors.New("recovered from a panic")

// ErrUnavailable is wrapped by a backend in errors that affect all its records, such as a lost
// connection or a full disk. As after a missed deadline, no request then waits for that shard for a
// second. Any other error belongs to one record.
var ErrUnavailable = errors.New("unavailable")

// NewBreaker makes a breaker. An operation longer than the budget has failed, and no request waits
// for its shard during the rest time after it. Failed receives each failure.
func NewBreaker(budget, rest time.Duration, failed func(what string, err error)) *Breaker {
	return &Breaker{budget: budget, rest: rest, failed: failed, work: make(chan work), end: make(chan struct{})}
}

// Close ends the breaker's idle goroutines. The breaker may still be used afterwards.
func (b *Breaker) Close() { b.once.Do(func() { close(b.end) }) }

// Patience is the remaining time that a request may wait.
type Patience struct{ left atomic.Int64 }

// Patience returns the full budget of a new request.
func (b *Breaker) Patience() *Patience {
	p := new(Patience)
	p.left.Store(int64(b.budget))
	return p
}

// Rest returns the remaining time, never negative.
func (p *Patience) Rest() time.Duration { return time.Duration(max(p.left.Load(), 0)) }

// Waited charges the time since a moment.
func (p *Patience) Waited(since time.Time) { p.left.Add(-int64(time.Since(since))) }

// Pause sleeps for a duration, or for the remaining time if that is shorter.
func (p *Patience) Pause(d time.Duration) {
	time.Sleep(min(d, p.Rest()))
	p.left.Add(-int64(d))
}

// wait waits until an operation has ended or the patience is used up.
func (p *Patience) wait(o *operation) {
	left := p.Rest()
	if left == 0 {
		return
	}
	begun := time.Now()
	defer p.Waited(begun)
	if !begun.Add(left).Before(o.deadline) { // the operation ends first
		<-o.over
		return
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-o.over:
	case <-timer.C:
	}
}

// Within runs an operation. It returns early once the patience is used up, while the operation goes
// on. An operation longer than the budget has failed.
func (b *Breaker) Within(p *Patience, at BreakerAt, what string, f func(context.Context) error) {
	if b.Rests(at) {
		return
	}
	w := work{b.begin(at, what), f}
	select {
	// an idle goroutine takes the operation
	case b.work <- w:
	default:
		go b.serve(w)
	}
	p.wait(w.operation)
}

// serve runs an operation, and then further ones as they come.
func (b *Breaker) serve(w work) {
	for {
		w.run(w.f)
		// Enough goroutines wait for work already.
		if b.idle.Add(1) > mostIdle {
			b.idle.Add(-1)
			return
		}
		select {
		case w = <-b.work:
			b.idle.Add(-1)
		case <-b.end:
			b.idle.Add(-1)
			return
		}
	}
}

// operation is one guarded call, and its own context: that context ends with the call or with the
// budget. Requests make at least two operations each, so the type avoids the timer and the two
// extra functions of a context from the standard library.
type operation struct {
	of       *Breaker
	at       BreakerAt
	what     string
	deadline time.Time
	timer    *time.Timer
	over     chan struct{}
	state    atomic.Int32
}

// The states of an operation. Each leaves running once.
const (
	running = iota
	ended
	late
)

var _ context.Context = (*operation)(nil)

func (b *Breaker) begin(at BreakerAt, what string) *operation {
	o := &operation{of: b, at: at, what: what, deadline: time.Now().Add(b.budget), over: make(chan struct{})}
	o.timer = time.AfterFunc(b.budget, o.expire)
	return o
}

func (o *operation) run(f func(context.Context) error) {
	var err error
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %T", ErrPanicked, p)
		}
		o.timer.Stop()
		// expire has reported the operation as late already.
		if !o.state.CompareAndSwap(running, ended) {
			return
		}
		defer close(o.over)
		if err != nil {
			o.of.Failed(o.at, o.what, err)
		}
	}()
	err = f(o)
}

func (o *operation) expire() {
	if o.state.CompareAndSwap(running, late) {
		defer close(o.over)
		o.of.Failed(o.at, o.what, context.DeadlineExceeded)
	}
}

// Deadline implements [context.Context].
func (o *operation) Deadline() (time.Time, bool) { return o.deadline, true }

// Done implements [context.Context].
func (o *operation) Done() <-chan struct{} { return o.over }

// Err implements [context.Context].
func (o *operation) Err() error {
	switch o.state.Load() {
	case ended:
		return context.Canceled
	case late:
		return context.DeadlineExceeded
	}
	return nil
}

// Value implements [context.Context].
func (o *operation) Value(any) any { return nil }
