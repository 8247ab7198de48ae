// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

// Breaker bounds how long requests wait for a store that may be slow, or down: each
// request no longer than a budget, all of its waits together, and none for a while after a
// shard of the store was slow. An error that comes at once keeps nobody waiting: it belongs
// to one record, which is then tried less and less often.

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Breaker stands before something that may fail.
type Breaker struct {
	budget, rest time.Duration
	failed       func(what string, err error)
	shards       [MaxShards]shard

	// Operations run in goroutines that have run others before: the stacks of those have
	// grown, which costs more than a short operation itself.
	work chan work
	idle atomic.Int64 // how many of them have nothing to do, about
	once sync.Once
	end  chan struct{}
}

type work struct {
	*operation
	f func(context.Context) error
}

// mostIdle bounds the goroutines that have nothing to do.
const mostIdle = 32

// ErrPanicked is what an operation that panics is taken to have failed with.
var ErrPanicked = errors.New("recovered from a panic")

// ErrUnavailable is for a backend to wrap in errors of all its records: there is no
// connection, or the disk is full. No request waits for it, or for its shard, for a second
// then, as after a deadline that has passed. Any other error belongs to the one record.
var ErrUnavailable = errors.New("unavailable")

// NewBreaker makes a breaker: an operation that takes longer than the budget has failed, and for
// the time of rest after it nobody waits for its shard. Failed is told of each failure.
func NewBreaker(budget, rest time.Duration, failed func(what string, err error)) *Breaker {
	return &Breaker{budget: budget, rest: rest, failed: failed, work: make(chan work), end: make(chan struct{})}
}

// Close lets go of what the breaker holds. It may be used afterwards.
func (b *Breaker) Close() { b.once.Do(func() { close(b.end) }) }

// Patience is how long somebody may still wait.
type Patience struct{ left atomic.Int64 }

// Patience returns that of somebody who has not waited yet.
func (b *Breaker) Patience() *Patience {
	p := new(Patience)
	p.left.Store(int64(b.budget))
	return p
}

// Rest is what is left of it, never less than nothing.
func (p *Patience) Rest() time.Duration { return time.Duration(max(p.left.Load(), 0)) }

// Waited notes that it was waited since a moment.
func (p *Patience) Waited(since time.Time) { p.left.Add(-int64(time.Since(since))) }

// Pause waits for a time, if there is so much patience left.
func (p *Patience) Pause(d time.Duration) {
	time.Sleep(min(d, p.Rest()))
	p.left.Add(-int64(d))
}

// wait waits until an operation is over, or there is no patience left.
func (p *Patience) wait(o *operation) {
	left := p.Rest()
	if left == 0 {
		return
	}
	begun := time.Now()
	defer p.Waited(begun)
	if !begun.Add(left).Before(o.deadline) { // it ends by itself before that
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

// Within does something. Who runs out of patience does not wait for the end of it; what
// takes longer than the budget has failed.
func (b *Breaker) Within(p *Patience, at BreakerAt, what string, f func(context.Context) error) {
	if b.Rests(at) {
		return
	}
	w := work{b.begin(at, what), f}
	select {
	case b.work <- w:
	default:
		go b.serve(w)
	}
	p.wait(w.operation)
}

// serve does something, and then what else there is to do.
func (b *Breaker) serve(w work) {
	for {
		w.run(w.f)
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

// operation is something that is done, and the context in which it is: that ends when the
// operation does, or with the budget. Requests make two of them or more, which is why it
// is no context of the library's with a timer and two further functions around it.
type operation struct {
	of       *Breaker
	at       BreakerAt
	what     string
	deadline time.Time
	timer    *time.Timer
	over     chan struct{}
	state    atomic.Int32
}

// The states of an operation. It leaves the first once.
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
