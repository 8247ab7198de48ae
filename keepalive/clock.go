// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package keepalive

import "time"

// Instant is a moment by two clocks: the calendar, which can be set, and a monotonic clock, which
// stands still while some machines sleep.
type Instant struct {
	// Wall is the calendar's time.
	Wall time.Time
	// Mono is the time since an arbitrary start.
	Mono time.Duration
}

var started = time.Now()

// At returns the instant of a time. Without a monotonic reading, its calendar stands for both clocks.
func At(t time.Time) Instant { return Instant{Wall: t.Round(0), Mono: t.Sub(started)} }

// Add returns a later instant.
func (i Instant) Add(d time.Duration) Instant { return Instant{i.Wall.Add(d), i.Mono + d} }

// tolerance is the difference between the two clocks within one wait up to which they are trusted.
const tolerance = 20 * time.Second

// since returns the time that has passed, and whether both clocks agree on it.
func (i Instant) since(before Instant) (time.Duration, bool) {
	mono, wall := i.Mono-before.Mono, i.Wall.Sub(before.Wall)
	// The clocks differ after the calendar was set or the machine slept. The longer time is the
	// safe one: the cache may have expired.
	return max(mono, wall), (mono - wall).Abs() <= tolerance
}
