// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Breaker guards a backend that may be slow or fail: it bounds the time that requests wait. After a
// shard was slow, no request waits for that shard for a while. An immediate error delays no
// request: it belongs to one record, and the breaker tries that record less and less often.
type Breaker struct {
	budget, rest time.Duration
	failed       func(what string, err error)
	shards       [MaxShards]shard
}

// ErrPanicked is the error of an operation that panicked.
var ErrPanicked = errors.New("recovered from a panic")

// ErrUnavailable is wrapped by a backend in errors that affect all its records, such as a lost
// connection or a full disk. As after a missed deadline, no request then waits for that shard for a
// second. Any other error belongs to one record.
var ErrUnavailable = errors.New("unavailable")

// NewBreaker makes a breaker. An operation longer than the budget has failed, and no request waits
// for its shard during the rest time after it. Failed receives each failure.
func NewBreaker(budget, rest time.Duration, failed func(what string, err error)) *Breaker {
	return &Breaker{budget: budget, rest: rest, failed: failed}
}

// Within runs an operation, and waits until the operation has ended, ctx has, or the budget.
func (b *Breaker) Within(ctx context.Context, at BreakerAt, what string, f func(context.Context) error) {
	if ctx.Err() != nil || b.Rests(at) {
		return
	}
	// The operation goes on after the end of ctx, because the end of a request is no failure of the
	// backend.
	op, cancel := context.WithTimeout(context.Background(), b.budget)
	over := make(chan struct{})
	inTime := context.AfterFunc(op, func() {
		defer close(over)
		b.Failed(at, what, context.DeadlineExceeded)
	})
	go func() {
		defer cancel()
		err := recovered(func() error { return f(op) })
		if !inTime() { // the operation is reported as late already
			return
		}
		defer close(over)
		if err != nil {
			b.Failed(at, what, err)
		}
	}()
	select {
	case <-over:
	case <-ctx.Done():
	}
}

// recovered turns a panic of f into an error.
func recovered(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %T", ErrPanicked, p)
		}
	}()
	return f()
}
