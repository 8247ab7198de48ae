// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package reuse

import (
	"math/bits"
	"sync"
)

// Bodies are large and short-lived: without reuse they would make up most of
// what the garbage collector has to do. There is one pool for each power of two, and
// a shelf for what is larger.
const (
	smallestBuffer = 12 // 4 KiB
	largestBuffer  = 23 // 8 MiB
)

var (
	buffers [largestBuffer + 1]sync.Pool
	large   shelf
)

// headers keeps what slices stand in while they are in a pool.
var headers sync.Pool

// Buffer returns an empty slice with room for at least n bytes.
func Buffer(n int) []byte {
	class := max(bits.Len(uint(max(n, 1)-1)), smallestBuffer)
	if class > largestBuffer {
		return large.take(n)
	}
	if h, ok := buffers[class].Get().(*[]byte); ok {
		b := (*h)[:0]
		*h = nil
		headers.Put(h)
		return b
	}
	return make([]byte, 0, 1<<class)
}

// Recycle gives a slice that came from Buffer back. Nothing may use it, or
// anything that points into it, from here on.
func Recycle(b []byte) {
	class := bits.Len(uint(cap(b))) - 1
	if class >= largestBuffer && cap(b) > 1<<largestBuffer {
		large.put(b)
		return
	}
	if class < smallestBuffer || cap(b) != 1<<class {
		return
	}
	h, ok := headers.Get().(*[]byte)
	if !ok {
		h = new([]byte)
	}
	*h = b[:0]
	buffers[class].Put(h)
}
