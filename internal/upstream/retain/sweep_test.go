// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package retain

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// shelf is something that is kept until some time.
type shelf struct {
	mu    sync.Mutex
	until time.Time
}

func (s *shelf) expire() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if left := time.Until(s.until); left > 0 {
		return left
	}
	s.until = time.Time{}
	return 0
}

func (s *shelf) keep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Now().Add(time.Hour)
}

func (s *shelf) kept() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.until.IsZero()
}

// What is used again stays, and what is not goes when its time is over, although nobody asks.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(shelf)
		s.keep()
		Sweep(s, time.Hour, (*shelf).expire)
		time.Sleep(30 * time.Minute)
		s.keep()
		time.Sleep(59 * time.Minute)
		if synctest.Wait(); !s.kept() {
			t.Error("what was used is gone")
		}
		time.Sleep(time.Minute)
		if synctest.Wait(); s.kept() {
			t.Error("what nobody has used stays")
		}
	})
}

// What waits to be swept is not kept in memory for that.
func TestSweepKeepsNothing(t *testing.T) {
	gone := make(chan bool)
	func() {
		s := new(shelf)
		runtime.AddCleanup(s, func(c chan bool) { close(c) }, gone)
		Sweep(s, time.Hour, (*shelf).expire)
	}()
	for range 10 {
		runtime.GC()
		select {
		case <-gone:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
	t.Error("it is still in memory")
}

// An engine that nobody asks any more, as after a reload with other bounds, comes to hold
// nothing.
func TestHeldNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(nil, Limits{Memory: 1 << 20, Life: time.Hour}, time.Now)
		(&Turn{engine: e, Request: new(Request)}).put(new(Base))
		time.Sleep(time.Hour)
		synctest.Wait()
		e.mu.Lock()
		defer e.mu.Unlock()
		if n := e.held.Len(); n > 0 {
			t.Errorf("%d are held", n)
		}
	})
}
