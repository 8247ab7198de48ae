// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"testing"
	"time"
)

func at(minutes int) time.Time { return time.Unix(int64(60*minutes), 0) }

func TestEnds(t *testing.T) {
	var e Ends
	for i := range maxEnds {
		e.Mark(i, at(i+1))
	}
	e.Mark(3, at(0)) // the same entry, and the oldest now
	e.Mark(maxEnds, at(maxEnds+1))
	if _, known := e.Marked(3); known || len(e) != maxEnds {
		t.Errorf("%d entries are known, the oldest: %t", len(e), known)
	}
	if got, known := e.Marked(maxEnds); !known || !got.Equal(at(maxEnds+1)) {
		t.Errorf("marked %s, %t", got, known)
	}
	e.Cut(10)
	if len(e) != 10 {
		t.Errorf("%d entries are left of 10", len(e))
	}

	var w PackedWriter
	e.Snapshot(&w, at(1))
	var again Ends
	r := PackedReader{In: w.Out}
	again.Restore(&r, at(1))
	if r.Bad || len(r.In) > 0 || len(again) != len(e) || cap(again) > 2*len(e) {
		t.Fatalf("%v comes back as %v", e, again)
	}
	for i := range e {
		if again[i].Blocks != e[i].Blocks || !again[i].At.Equal(e[i].At) {
			t.Errorf("%v comes back as %v", e[i], again[i])
		}
	}
}

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
