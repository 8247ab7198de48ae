// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"sync"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/clock"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
)

// recordedClock is the clock of an arm. The recorded times move it, and background work runs one
// after the other while they do.
type recordedClock struct {
	mu      sync.Mutex
	now     time.Time
	waiting []*task        // in the order in which they were set
	begun   map[string]int // all tasks so far, by name
}

type task struct {
	clock *recordedClock
	at    time.Time
	doing string
	run   func()
}

var _ clock.Clock = (*recordedClock)(nil)

// Now implements [clock.Clock].
func (c *recordedClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// After implements [clock.Clock].
func (c *recordedClock) After(delay time.Duration, doing string, f func()) clock.Timer {
	t := &task{clock: c, doing: doing, run: f}
	c.mu.Lock()
	c.begun[doing]++
	c.mu.Unlock()
	t.Reset(delay)
	return t
}

// Sleep implements [clock.Clock]. Background work takes no time.
func (*recordedClock) Sleep(context.Context, time.Duration) {}

// Stop implements [clock.Timer].
func (t *task) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	return t.clock.remove(t)
}

// Reset implements [clock.Timer].
func (t *task) Reset(delay time.Duration) bool {
	c := t.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	waited := c.remove(t)
	t.at = c.now.Add(delay)
	c.waiting = append(c.waiting, t)
	return waited
}

// remove takes a task out of those waiting. The clock must be locked.
func (c *recordedClock) remove(t *task) bool {
	for i, o := range c.waiting {
		if o == t {
			c.waiting = append(c.waiting[:i], c.waiting[i+1:]...)
			return true
		}
	}
	return false
}

func (c *recordedClock) set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

func (c *recordedClock) count(doing string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.begun[doing]
}

// advance runs the tasks that are due until a time, each at its own time.
func (c *recordedClock) advance(until time.Time) {
	for {
		// The clock goes back to a task that fell due while a response was recorded.
		t := c.next(until)
		if t == nil {
			return
		}
		httpx.Background(t.doing, t.run)
	}
}

// next takes the first task until a time, and moves the clock to it.
func (c *recordedClock) next(until time.Time) (first *task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.waiting {
		if !t.at.After(until) && (first == nil || t.at.Before(first.at)) {
			first = t
		}
	}
	if first != nil {
		c.remove(first)
		c.now = first.at
	}
	return first
}
