// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package reuse

import (
	"math/bits"
	"sync"
)

// Bodies are large and short-lived. Without reuse they would cause most of the garbage collector's
// work. There is one pool for each power of two, and a shelf for larger buffers.
const (
	smallestBuffer = 12 // 4 KiB
	largestBuffer  = 23 // 8 MiB
)

var (
	buffers [largestBuffer + 1]sync.Pool
	large   shelf
)

// headers recycles the slice headers that pools require behind a pointer.
var headers sync.Pool

// Buffer returns an empty slice with a capacity of at least n bytes.
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

// Recycle returns a slice from Buffer to its pool. The slice, and all views of it, must no longer
// be used.
func Recycle(b []byte) {
	class := bits.Len(uint(cap(b))) - 1
	if class >= largestBuffer && cap(b) > 1<<largestBuffer {
		large.put(b)
		return
	}
	// The slice is not from Buffer.
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
