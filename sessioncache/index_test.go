// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"slices"
	"testing"
)

func TestIndex(t *testing.T) {
	x := ownerIndex[string, int, string]{}
	of := map[string][]int{}
	move := func(owner, it string, now ...int) {
		t.Helper()
		if of[it] = x.Move(owner, it, of[it], now); !slices.Equal(of[it], now) {
			t.Fatalf("%s is under %d, not %d", it, of[it], now)
		}
	}
	found := func(owner string, hash int, want string) {
		t.Helper()
		if got := x.Find(owner, hash); got != want {
			t.Errorf("under %s's %d is %q, not %q", owner, hash, got, want)
		}
	}
	move("anna", "a", 1, 2)
	move("ben", "b", 1)
	found("anna", 1, "a")
	found("ben", 1, "b")
	found("ben", 2, "")
	move("anna", "later", 2)
	found("anna", 2, "later")
	move("anna", "a", 3) // the other owner of the hash keeps it
	found("anna", 1, "")
	found("anna", 2, "later")
	found("anna", 3, "a")
	move("anna", "later")
	found("anna", 2, "")
	move("anna", "later", 3)
	move("anna", "a", 3) // the same as before, and the last
	found("anna", 3, "a")
	move("anna", "a")
	move("anna", "later")
	move("ben", "b")
	if len(x) != 0 {
		t.Errorf("left are %v", x)
	}
}
