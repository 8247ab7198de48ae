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

// shelf holds an item until some time.
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

// TestSweep: a used item stays, and an unused one expires in time without any call.
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

// TestSweepKeepsNothing: the sweeper does not keep its target in memory.
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

// TestHeldNoLonger: an unused engine, as after a reload with other limits, becomes empty.
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
