// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"context"
	"errors"
	"fmt"
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
		"fails":  {func(context.Context) error { return boom }, boom, 0, false},
		"panics": {func(context.Context) error { panic("boom") }, ErrPanicked, 0, false},
		"is not there": {
			func(context.Context) error { return fmt.Errorf("dial: %w", ErrUnavailable) }, ErrUnavailable, 0,
			true,
		},
		"stops": {
			func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, context.DeadlineExceeded,
			budget, true,
		},
		"too late": {
			func(context.Context) error { time.Sleep(2 * budget); return boom }, context.DeadlineExceeded,
			budget, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			use(t, func(b *Breaker, failures *told) {
				begun := time.Now()
				b.Within(context.Background(), BreakerAt{}, "do", c.does)
				if waited := time.Since(begun); waited != c.waited || b.Rests(BreakerAt{}) != c.rests {
					t.Errorf("it waits %s, want %s; rests: %t, want %t", waited, c.waited, b.Rests(BreakerAt{}), c.rests)
				}
				asked := false
				b.Within(context.Background(), BreakerAt{}, "do", func(context.Context) error { asked = true; return nil })
				if asked == c.rests {
					t.Errorf("asked: %t, while it rests: %t", asked, c.rests)
				}
				asked = false
				b.Within(context.Background(), BreakerAt{Shard: 1}, "do", func(context.Context) error { asked = true; return nil })
				if !asked {
					t.Error("another shard is not asked")
				}
				time.Sleep(restTime)
				if len(*failures) != 1 || !errors.Is((*failures)[0], c.why) {
					t.Errorf("failures: %v", *failures)
				}
				did := false
				b.Within(context.Background(), BreakerAt{}, "do", func(context.Context) error { did = true; return nil })
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
		b.Within(context.Background(), BreakerAt{}, "do", func(ctx context.Context) error {
			var cancel context.CancelFunc
			inner, cancel = context.WithCancel(ctx)
			context.AfterFunc(inner, cancel)
			if _, ok := ctx.Deadline(); !ok || ctx.Err() != nil {
				t.Error("it is over from the beginning, or has no end")
			}
			return nil
		})
		b.Within(context.Background(), BreakerAt{}, "do",
			func(ctx context.Context) error { late = ctx; <-ctx.Done(); return nil })
		synctest.Wait()
		if !errors.Is(inner.Err(), context.Canceled) || !errors.Is(late.Err(), context.DeadlineExceeded) {
			t.Errorf("%v, %v", inner.Err(), late.Err())
		}
	})
}

// The end of a request ends its wait, is no failure, and leaves the operation alone.
func TestRequestEnds(t *testing.T) {
	use(t, func(b *Breaker, failures *told) {
		ctx, cancel := context.WithTimeout(context.Background(), budget/5)
		defer cancel()
		begun, took := time.Now(), time.Duration(0)
		b.Within(ctx, BreakerAt{}, "do", func(ctx context.Context) error {
			time.Sleep(budget / 2)
			took = time.Since(begun)
			return ctx.Err()
		})
		if waited := time.Since(begun); waited != budget/5 {
			t.Errorf("waited %s, want %s", waited, budget/5)
		}
		asked := false
		b.Within(ctx, BreakerAt{}, "do", func(context.Context) error { asked = true; return nil })
		time.Sleep(budget)
		synctest.Wait()
		if took != budget/2 || asked || len(*failures) > 0 {
			t.Errorf("the operation took %s, want %s; a request that has ended asks: %t; failures: %v", took, budget/2,
				asked, *failures)
		}
	})
}

// Operations do not wait for one another, however many there are.
func TestSideBySide(t *testing.T) {
	use(t, func(b *Breaker, _ *told) {
		const operations = 100
		done := make(chan time.Duration)
		for range operations {
			go func() {
				begun := time.Now()
				b.Within(context.Background(), BreakerAt{}, "do",
					func(context.Context) error { time.Sleep(budget / 2); return nil })
				done <- time.Since(begun)
			}()
		}
		for range operations {
			if took := <-done; took != budget/2 {
				t.Errorf("took %s, want %s", took, budget/2)
			}
		}
	})
}
