// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// Tasks run at their own times, in the order in which they are due. Those due at once run in the
// order in which they were set.
func TestRecordedClock(t *testing.T) {
	start := defaultStart
	c := &recordedClock{now: start, begun: map[string]int{}}
	var got []string
	note := func(name string) { got = append(got, fmt.Sprint(name, " ", c.Now().Sub(start))) }
	c.After(3*time.Second, "later", func() { note("later") })
	c.After(time.Second, "first", func() {
		note("first")
		c.After(0, "at once", func() { note("at once") })
		c.After(0, "at once", func() { note("then") })
	})
	stopped := c.After(time.Second, "stopped", func() { note("stopped") })
	moved := c.After(time.Second, "moved", func() { note("moved") })
	if !stopped.Stop() || stopped.Stop() || !moved.Reset(2*time.Second) {
		t.Error("a waiting task could not be stopped once, or not be moved")
	}
	c.advance(start.Add(2 * time.Second))
	if want := []string{"first 1s", "at once 1s", "then 1s", "moved 2s"}; !slices.Equal(got, want) {
		t.Errorf("until 2s: got %v, want %v", got, want)
	}
	got = nil
	c.set(start.Add(5 * time.Second))
	c.advance(start.Add(5 * time.Second))
	if want := []string{"later 3s"}; !slices.Equal(got, want) {
		t.Errorf("of a task that fell due meanwhile: got %v, want %v", got, want)
	}
	if n := c.count("at once"); n != 2 {
		t.Errorf("%d tasks were set at once, want 2", n)
	}
}

// A panic ends its task only.
func TestRecordedClockPanics(t *testing.T) {
	c := &recordedClock{now: defaultStart, begun: map[string]int{}}
	ran := false
	c.After(0, "panicking", func() { panic("of a test") })
	c.After(0, "after a panic", func() { ran = true })
	if c.advance(defaultStart); !ran {
		t.Error("the next task did not run")
	}
}
