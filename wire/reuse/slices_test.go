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
