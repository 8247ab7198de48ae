// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import "testing"

// TestNewStates: recycled states contain nothing of their earlier user.
func TestNewStates(t *testing.T) {
	for range 100 { // the pool may have lost it
		old := NewBlockStates(30)
		for i := range old {
			old[i] = BlockState{Trait: "of another", Used: 1}
		}
		RecycleStates(old)
		known := []BlockState{{Used: 2}, {Used: 3}}
		states := NewBlockStates(20, known...)
		for i, s := range states[:cap(states)] {
			want := BlockState{}
			if i < len(known) {
				want = known[i]
			}
			if s != want {
				t.Fatalf("block %d: %+v", i, s)
			}
		}
		if len(states) != 20 {
			t.Fatalf("%d states", len(states))
		}
		if fewer := NewBlockStates(1, known...); len(fewer) != 1 || fewer[0] != known[0] {
			t.Fatalf("more are known than there are blocks: %+v", fewer)
		}
	}
}
