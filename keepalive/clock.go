// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package keepalive

import "time"

// Instant is a moment by two clocks: the calendar, which may be set, and one
// that only runs forward, and which stands still while some machines sleep.
type Instant struct {
	// Wall is the calendar's time.
	Wall time.Time
	// Mono is the time since some moment before.
	Mono time.Duration
}

var started = time.Now()

// Now reads both clocks of this machine.
func Now() Instant {
	t := time.Now()
	return Instant{Wall: t.Round(0), Mono: t.Sub(started)}
}

// At is an instant by one clock alone, for tests and replays.
func At(t time.Time) Instant { return Instant{Wall: t.Round(0), Mono: t.Sub(time.Unix(0, 0))} }

// Add returns a later instant.
func (i Instant) Add(d time.Duration) Instant { return Instant{i.Wall.Add(d), i.Mono + d} }

// tolerance is how far the two clocks may drift apart within one wait before
// neither is trusted.
const tolerance = 20 * time.Second

// since returns the time that has passed, and whether both clocks agree on it.
// They do not where the calendar was set or the machine slept; the longer time
// is returned then.
func (i Instant) since(before Instant) (time.Duration, bool) {
	mono, wall := i.Mono-before.Mono, i.Wall.Sub(before.Wall)
	return max(mono, wall), (mono - wall).Abs() <= tolerance
}
