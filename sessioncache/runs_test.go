// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"math"
	"testing"
)

func TestRuns(t *testing.T) {
	var r Runs
	short, long := LikeRuns{Kind: 1}, LikeRuns{Kind: 2}
	run := func(k LikeRuns, requests, times int) {
		for range times {
			for n := range requests {
				r.Note(k, n+1)
			}
		}
	}
	run(short, 12, minLike-1)
	if _, ok := r.Further(short, 8); ok {
		t.Errorf("%d conversations are too few to tell", minLike-1)
	}
	run(short, 12, 11)
	run(long, 100, 20)
	for _, c := range []struct {
		kind     LikeRuns
		n        int
		min, max float64
	}{
		{short, 0, 9, 14},
		{short, 8, 4, 8},
		{short, 12, 0, 3},
		{long, 8, 80, 120},
		{long, 64, 30, 60},
	} {
		got, ok := r.Further(c.kind, c.n)
		if !ok || got < c.min || got > c.max {
			t.Errorf("kind %d after %d requests: %.1f more, %v; want between %g and %g", c.kind.Kind, c.n, got, ok, c.min, c.max)
		}
	}
	if _, ok := r.Further(short, 16); ok {
		t.Error("none of them ran 16 requests")
	}
	if _, ok := r.Further(LikeRuns{Tenant: [16]byte{1}, Kind: 2}, 8); ok {
		t.Error("another tenant's conversations count")
	}
}

func TestRunsAreBounded(t *testing.T) {
	var r Runs
	for kind := range uint32(3 * maxKinds) {
		r.Note(LikeRuns{Kind: kind}, 1)
	}
	if len(r.kinds) > maxKinds {
		t.Errorf("%d kinds are remembered, at most %d are wanted", len(r.kinds), maxKinds)
	}
}

// TestFurtherOfAStore: conversations of one store share their statistics.
func TestFurtherOfAStore(t *testing.T) {
	m, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for i := range 20 {
		s := m.Acquire(t.Context(), Key{ID: string(rune('a' + i))})
		s.Lock()
		l := &Conversation{Kind: 7}
		for range 24 {
			s.CountRequest(l)
		}
		s.Unlock()
		m.Release(s)
	}
	s := m.Acquire(t.Context(), Key{ID: "another"})
	defer m.Release(s)
	s.Lock()
	defer s.Unlock()
	if got, ok := s.ExpectedRemaining(7, &Conversation{Requests: 16}); !ok || math.Abs(got-12) > 4 {
		t.Errorf("%.1f more requests, %v; want about 12", got, ok)
	}
	if _, ok := s.ExpectedRemaining(8, nil); ok {
		t.Error("a kind never seen is known")
	}
}
