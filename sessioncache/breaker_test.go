// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

const (
	budget   = 5 * time.Millisecond
	restTime = time.Second
)

// told are the failures that a breaker has reported.
type told []error

func use(t *testing.T, f func(b *Breaker, told *told)) {
	synctest.Test(t, func(*testing.T) {
		failures := new(told)
		b := NewBreaker(budget, restTime, func(_ string, err error) { *failures = append(*failures, err) })
		defer b.Close()
		f(b, failures)
	})
}

// An operation that is slow or finds the store unavailable makes its shard rest, and counts once,
// however late it ends. An operation that fails at once does not.
func TestFailures(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		does   func(context.Context) error
		why    error
		waited time.Duration
		rests  bool
	}{
		"fails":        {func(context.Context) error { return boom }, boom, 0, false},
		"panics":       {func(context.Context) error { panic("boom") }, ErrPanicked, 0, false},
		"is not there": {func(context.Context) error { return fmt.Errorf("dial: %w", ErrUnavailable) }, ErrUnavailable, 0, true},
		"stops":        {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, context.DeadlineExceeded, budget, true},
		"too late":     {func(context.Context) error { time.Sleep(2 * budget); return boom }, context.DeadlineExceeded, budget, true},
	} {
		t.Run(name, func(t *testing.T) {
			use(t, func(b *Breaker, failures *told) {
				begun := time.Now()
				b.Within(b.Patience(), BreakerAt{}, "do", c.does)
				if waited := time.Since(begun); waited != c.waited || b.Rests(BreakerAt{}) != c.rests {
					t.Errorf("it waits %s, want %s; rests: %t, want %t", waited, c.waited, b.Rests(BreakerAt{}), c.rests)
				}
				asked := false
				b.Within(b.Patience(), BreakerAt{}, "do", func(context.Context) error { asked = true; return nil })
				if asked == c.rests {
					t.Errorf("asked: %t, while it rests: %t", asked, c.rests)
				}
				asked = false
				b.Within(b.Patience(), BreakerAt{Shard: 1}, "do", func(context.Context) error { asked = true; return nil })
				if !asked {
					t.Error("another shard is not asked")
				}
				time.Sleep(restTime)
				if len(*failures) != 1 || !errors.Is((*failures)[0], c.why) {
					t.Errorf("failures: %v", *failures)
				}
				did := false
				b.Within(b.Patience(), BreakerAt{}, "do", func(context.Context) error { did = true; return nil })
				if !did || b.Rests(BreakerAt{}) {
					t.Errorf("done: %t, rests: %t", did, b.Rests(BreakerAt{}))
				}
			})
		})
	}
}

// Contexts made of an operation's end with it.
func TestContextsEnd(t *testing.T) {
	use(t, func(b *Breaker, _ *told) {
		var inner, late context.Context
		b.Within(b.Patience(), BreakerAt{}, "do", func(ctx context.Context) error {
			var cancel context.CancelFunc
			inner, cancel = context.WithCancel(ctx)
			context.AfterFunc(inner, cancel)
			if _, ok := ctx.Deadline(); !ok || ctx.Err() != nil {
				t.Error("it is over from the beginning, or has no end")
			}
			return nil
		})
		b.Within(b.Patience(), BreakerAt{}, "do", func(ctx context.Context) error { late = ctx; <-ctx.Done(); return nil })
		synctest.Wait()
		if !errors.Is(inner.Err(), context.Canceled) || !errors.Is(late.Err(), context.DeadlineExceeded) {
			t.Errorf("%v, %v", inner.Err(), late.Err())
		}
	})
}

// Operations do not wait for one another, however many there are, and none is kept from
// being done by those that do not end.
func TestSideBySide(t *testing.T) {
	use(t, func(b *Breaker, _ *told) {
		var took []time.Duration
		done := make(chan time.Duration)
		for range 3 * mostIdle {
			go func() {
				begun := time.Now()
				b.Within(b.Patience(), BreakerAt{}, "do", func(context.Context) error { time.Sleep(budget / 2); return nil })
				done <- time.Since(begun)
			}()
		}
		for range 3 * mostIdle {
			took = append(took, <-done)
		}
		if slices.Max(took) != budget/2 {
			t.Errorf("the last took %s", slices.Max(took))
		}
		synctest.Wait()
		if n := b.idle.Load(); n != mostIdle {
			t.Errorf("%d wait for work", n)
		}
	})
}
