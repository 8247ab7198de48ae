// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package keepalive

import (
	"testing"
	"time"
)

// Recorded requests teach the same as observed pauses.
func TestHistory(t *testing.T) {
	user := Habit{Tenant: [16]byte{1}, Client: 7, Hour: 9}
	at := time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC)
	var h History
	var watched Learned
	add := func(session string, conversation int, after time.Duration, tool bool) {
		at = at.Add(after)
		if !h.Add(Past{Habit: user, Session: session, Conversation: conversation, At: at, Tool: tool}) {
			t.Fatal("no room")
		}
	}
	add("a", 0, 0, true)
	add("a", 0, time.Minute, false) // the response to the first prompt
	add("b", 1, time.Second, false) // a sub-agent without another request
	add("a", 0, 10*time.Minute, false)
	add("a", 0, 6*time.Minute, true)
	watched.Observe(user, Moment{Prompts: 2, Pauses: 1}, 6*time.Minute, true)
	add("a", 0, time.Minute, false)
	add("a", 0, 30*time.Minute, true)
	watched.Observe(user, Moment{Prompts: 3, Pauses: 2}, 30*time.Minute, true)
	add("a", 0, 24*time.Hour, false)
	watched.Observe(user, Moment{Tool: true, Prompts: 4, Pauses: 3}, patience, false)
	watched.Observe(user, Moment{Prompts: 4, Pauses: 4}, time.Hour, false)

	var l Learned
	h.Teach(&l, at.Add(time.Hour))
	if got, want := l.counts, watched.counts; len(got) != len(want) || len(got) != 3 {
		t.Fatalf("%d habits, want %d", len(got), len(want))
	}
	for k, want := range watched.counts {
		if got := l.counts[k]; got.seen != want.seen || got.expected < want.expected-1e-9 || got.expected > want.expected+
			1e-9 {
			t.Errorf("%+v: %+v, want %+v", k, got, want)
		}
	}
	// The same requests once more double the counts.
	var again History
	again.learned.Observe(user, Moment{Prompts: 2}, time.Hour, true)
	again.Teach(&l, at)
	if k := user.groups()[0]; l.counts[k].seen != 3 {
		t.Errorf("%v returns seen, want 3", l.counts[k].seen)
	}
}

// An hour of the day without returns lowers the chance at that hour, and less so with few
// observations.
func TestHourOfDay(t *testing.T) {
	var l Learned
	m := Moment{Prompts: 3}
	morning, night := Habit{Hour: 10}, Habit{Hour: 23}
	for range 40 {
		l.Observe(morning, m, 8*time.Minute, true)
		l.Observe(night, m, patience, false)
	}
	l.Observe(Habit{Hour: 5}, m, patience, false) // once
	away := func(h Habit) float64 {
		c := l.Chance(h, m)
		return c.Away(4*time.Minute, 10*time.Minute)
	}
	if a, b, c := away(morning), away(Habit{Hour: 5}), away(night); !(a < b && b < c) {
		t.Errorf("away: %.2f in the morning, %.2f at an hour seen once, %.2f at night", a, b, c)
	}
	if a, b := away(Habit{Hour: 5}), away(Habit{Hour: 6}); b-a > 0.2 || a-b > 0.2 {
		t.Errorf("one pause moved the chance from %.2f to %.2f", b, a)
	}
}
