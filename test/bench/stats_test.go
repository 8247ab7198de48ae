// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"
	"testing"
)

// The ranks are those of tables of the sign test.
func TestInterval(t *testing.T) {
	for n, rank := range map[int]int{1: 0, 5: 0, 6: 0, 8: 0, 9: 1, 11: 1, 12: 2, 20: 5, 30: 9} {
		v := make([]float64, n)
		for i, at := range rand.Perm(n) {
			v[at] = float64(i)
		}
		if low, high := interval(v); low != float64(rank) || high != float64(n-1-rank) {
			t.Errorf("of %d: %v to %v, want %d to %d", n, low, high, rank, n-1-rank)
		}
	}
	if low, high := interval(nil); low != 0 || high != 0 {
		t.Errorf("of none: %v to %v", low, high)
	}
}
