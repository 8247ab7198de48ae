// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package reuse

import "testing"

func TestSizes(t *testing.T) {
	last, seen := -1, -1
	for n := range 1<<20 + 1 {
		size, class := sizeOf(n)
		spare := size - n
		if spare < 0 || spare >= slicesStep && 16*spare >= n {
			t.Fatalf("%d elements get room for %d", n, size)
		}
		switch {
		case size == last && class != seen, size != last && class != seen+1:
			t.Fatalf("%d elements: size %d has class %d, after %d", n, size, class, seen)
		}
		if again, same := sizeOf(size); again != size || same != class {
			t.Fatalf("size %d is not one: %d, class %d", size, again, same)
		}
		last, seen = size, class
	}
	var s Slices[int]
	if seen != len(s.pools)-1 {
		t.Errorf("%d classes have %d pools", seen+1, len(s.pools))
	}
	for _, n := range []int{0, 1, 33, 5000, 1<<20 + 1} {
		v := append(s.Make(n), make([]int, n)...)
		s.Recycle(v)
		if again := s.Make(n); len(again) != 0 || cap(again) < n {
			t.Errorf("%d elements: a slice of %d in %d", n, len(again), cap(again))
		}
	}
}
