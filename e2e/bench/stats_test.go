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
