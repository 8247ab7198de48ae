// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"testing"
	"time"
)

// TestObserved: answers correct the lifetime and the minimum of an assumed model within bounds, and
// of no other.
func TestObserved(t *testing.T) {
	const m = time.Minute
	lost := func(pause time.Duration) Sighting { return Sighting{Left: 9000, Pause: pause} }
	found := func(pause time.Duration) Sighting { return Sighting{Left: 9000, Found: 9000, Held: 9500, Pause: pause} }
	for _, c := range []struct {
		name      string
		from      string
		sightings []Sighting
		ttl       time.Duration
		tokens    int
	}{
		{"nothing seen", "a", nil, 30 * m, 1024},
		{"found after a longer pause", "a", []Sighting{found(45 * m), found(5 * m)}, 45 * m, 1024},
		{"found after days", "a", []Sighting{found(72 * time.Hour)}, 24 * time.Hour, 1024},
		{"lost", "a", []Sighting{lost(20 * m), found(2 * m), lost(8 * m), lost(9 * m)}, 8 * m, 1024},
		{"found after a longer pause than it was lost", "a", []Sighting{lost(6 * m), found(10 * m), lost(8 * m)}, 30 * m, 1024},
		{"lost later than that", "a", []Sighting{lost(6 * m), found(10 * m), lost(15 * m)}, 15 * m, 1024},
		{"lost at once", "a", []Sighting{{Left: 3000, Pause: time.Second}, {Left: 2000, Pause: time.Second}}, 30 * m, 3001},
		{"a miss at once of a long prompt", "a", []Sighting{{Left: 90000, Pause: time.Second}}, 30 * m, 8192},
		{"held though short", "a", []Sighting{{Left: 3000, Pause: time.Second}, {Held: 2048}}, 30 * m, 2048},
		{"held though very short", "a", []Sighting{{Held: 100}}, 30 * m, 256},
		{"a model of its own rules", "", []Sighting{found(45 * m), {Held: 300}}, 30 * m, 1024},
	} {
		r := Rules{Provider: "p", Model: "m", TTL: 30 * m, MinTokens: 1024}
		if c.from != "" {
			r.observed = new(Observed)
		}
		for _, s := range c.sightings {
			corrected := r.Corrected()
			corrected.Observe(s)
		}
		if got := r.Corrected(); got.TTL != c.ttl || got.MinTokens != c.tokens {
			t.Errorf("%s: got %v and %d tokens, want %v and %d", c.name, got.TTL, got.MinTokens, c.ttl, c.tokens)
		}
		other := r
		other.Model = "n"
		if got := other.Corrected(); got != other {
			t.Errorf("%s: another model got %+v, want %+v", c.name, got, other)
		}
	}
}
