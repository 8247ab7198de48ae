// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package reuse

import (
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
