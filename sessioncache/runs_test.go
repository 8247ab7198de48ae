// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package sessioncache

import (
	"math"
	"testing"
)

func TestRuns(t *testing.T) {
	var r runs
	short, long := like{kind: 1}, like{kind: 2}
	run := func(k like, requests, times int) {
		for range times {
			for n := range requests {
				r.note(k, n+1)
			}
		}
	}
	run(short, 12, minLike-1)
	if _, ok := r.further(short, 8); ok {
		t.Errorf("%d conversations are too few to tell", minLike-1)
	}
	run(short, 12, 11)
	run(long, 100, 20)
	for _, c := range []struct {
		kind     like
		n        int
		min, max float64
	}{
		{short, 0, 9, 14},
		{short, 8, 4, 8},
		{short, 12, 0, 3},
		{long, 8, 80, 120},
		{long, 64, 30, 60},
	} {
		got, ok := r.further(c.kind, c.n)
		if !ok || got < c.min || got > c.max {
			t.Errorf("kind %d after %d requests: %.1f more, %v; want between %g and %g", c.kind.kind, c.n, got, ok, c.min, c.max)
		}
	}
	if _, ok := r.further(short, 16); ok {
		t.Error("none of them ran 16 requests")
	}
	if _, ok := r.further(like{tenant: Tenant{1}, kind: 2}, 8); ok {
		t.Error("another tenant's conversations count")
	}
}

func TestRunsAreBounded(t *testing.T) {
	var r runs
	for kind := range uint32(3 * maxKinds) {
		r.note(like{kind: kind}, 1)
	}
	if len(r.kinds) > maxKinds {
		t.Errorf("%d kinds are remembered, at most %d are wanted", len(r.kinds), maxKinds)
	}
}

// TestFurtherOfAStore looks at what conversations of one store learn of each other.
func TestFurtherOfAStore(t *testing.T) {
	m, err := NewMemory(MemoryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for i := range 20 {
		s := m.Acquire(Key{ID: string(rune('a' + i))})
		s.Lock()
		l := &Lineage{Kind: 7}
		for range 24 {
			s.CountRequest(l)
		}
		s.Unlock()
		m.Release(s)
	}
	s := m.Acquire(Key{ID: "another"})
	defer m.Release(s)
	s.Lock()
	defer s.Unlock()
	if got, ok := s.ExpectedRemaining(7, &Lineage{Requests: 16}); !ok || math.Abs(got-12) > 4 {
		t.Errorf("%.1f more requests, %v; want about 12", got, ok)
	}
	if _, ok := s.ExpectedRemaining(8, nil); ok {
		t.Error("a kind never seen is known")
	}
}
