// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package reuse

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
)

// TestBuffers: a buffer has the requested capacity, and a recycled buffer is returned for the next
// request of its size.
func TestBuffers(t *testing.T) {
	for _, n := range []int{0, 1, 4096, 4097, 8 << 20, 8<<20 + 1, 31 << 20, 32<<20 + 1} {
		b := Buffer(n)
		if len(b) != 0 || cap(b) < n {
			t.Fatalf("for %d bytes: %d of %d", n, len(b), cap(b))
		}
		b = append(b, make([]byte, n)...)
		Recycle(b)
		if n <= 8<<20 {
			continue // a pool may drop items, above all with the race detector
		}
		if again := Buffer(n); unsafe.SliceData(again) != unsafe.SliceData(b) || len(again) != 0 {
			t.Errorf("%d bytes were not used again", n)
		}
	}
	Recycle(nil)
	Recycle(make([]byte, 5000))
	Recycle(make([]byte, 9<<20))
}

// TestShelf: the two largest buffers are cached, none beyond the limit, and none for long.
func TestShelf(t *testing.T) {
	const mb = 1 << 20
	synctest.Test(t, func(t *testing.T) {
		var s shelf
		for _, n := range []int{12, 16, 8, 20, 40} {
			s.put(make([]byte, 0, n*mb))
		}
		time.Sleep(shelfLife - 1)
		if a, b := s.take(9*mb), s.take(17*mb); cap(a)+cap(b) != 36*mb {
			t.Errorf("%d and %d MiB were kept", cap(a)/mb, cap(b)/mb)
		}
		if c := s.take(9 * mb); cap(c) != 12*mb {
			t.Errorf("a new one has %d MiB", cap(c)/mb)
		}
		s.put(make([]byte, 0, 12*mb))
		time.Sleep(shelfLife)
		synctest.Wait()
		if s.kept[0] != nil || s.kept[1] != nil {
			t.Error("kept for ever")
		}
	})
}

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

// TestIntern: equal strings are interned correctly, also after another string has taken their slot.
func TestIntern(t *testing.T) {
	b := []byte("claude-opus-5-5")
	if s := Intern(b); s != "claude-opus-5-5" {
		t.Fatal(s)
	}
	if n := testing.AllocsPerRun(100, func() { Intern(b) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	for i := range 4 * len(names) {
		other := strings.Repeat("n", i%300)
		if s := Intern([]byte(other)); s != other {
			t.Fatal(s, other)
		}
	}
}

// The race detector's builds overwrite recycled memory.
func TestRecycledMemoryIsOverwritten(t *testing.T) {
	if !overwrites {
		t.Skip("without the race detector")
	}
	for _, n := range []int{4096, 9 << 20} {
		b := append(Buffer(n), "secret"...)
		Recycle(b)
		if string(b) == "secret" {
			t.Errorf("a recycled buffer of %d bytes has %q, want zeros", n, b)
		}
	}
	plain := Slices[int]{Plain: true}
	v := append(plain.Make(4), 7)
	if plain.Recycle(v); v[0] == 7 {
		t.Errorf("a recycled slice has %v, want zeros", v)
	}
}
