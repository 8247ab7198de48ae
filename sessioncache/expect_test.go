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
