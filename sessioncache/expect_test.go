// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"math"
	"testing"
)

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
		l := &Lineage{Kind: 7}
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
	if got, ok := s.ExpectedRemaining(7, &Lineage{Requests: 16}); !ok || math.Abs(got-12) > 4 {
		t.Errorf("%.1f more requests, %v; want about 12", got, ok)
	}
	if _, ok := s.ExpectedRemaining(8, nil); ok {
		t.Error("a kind never seen is known")
	}
}
