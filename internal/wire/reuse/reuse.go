// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package reuse recycles the memory of bodies and slices and interns repeated strings.
package reuse

import (
	"hash/maphash"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Bodies are large and short-lived. Without reuse they would cause most of the garbage collector's
// work. There is one pool for each power of two, and a shelf for larger buffers.
const (
	minBuffer = 12 // 4 KiB
	maxBuffer = 23 // 8 MiB
)

var (
	buffers [maxBuffer + 1]sync.Pool
	large   shelf
)

// headers recycles the slice headers that pools require behind a pointer.
var headers sync.Pool

// Buffer returns an empty slice with a capacity of at least n bytes.
func Buffer(n int) []byte {
	class := max(bits.Len(uint(max(n, 1)-1)), minBuffer)
	if class > maxBuffer {
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
	if class >= maxBuffer && cap(b) > 1<<maxBuffer {
		large.put(b)
		return
	}
	// The slice is not from Buffer.
	if class < minBuffer || cap(b) != 1<<class {
		return
	}
	h, ok := headers.Get().(*[]byte)
	if !ok {
		h = new([]byte)
	}
	if overwrites {
		clear(b[:cap(b)])
	}
	*h = b[:0]
	buffers[class].Put(h)
}

const (
	// shelfStep is the granularity of buffer sizes: the next body of a conversation is slightly
	// larger.
	shelfStep = 4 << 20
	// shelfLargest has room for a body of 32 MiB and one more byte for detecting its end.
	shelfLargest = 36 << 20
	// shelfLife is the time after which unused buffers are dropped.
	shelfLife = 10 * time.Second
)

// shelf caches two buffers larger than those in the pools. A pool would keep all buffers of a load
// peak until the next garbage collection. The zero value is ready to use.
type shelf struct {
	mu    sync.Mutex
	kept  [2][]byte
	clear *time.Timer
}

func (s *shelf) take(n int) []byte {
	if b := s.smallest(n); b != nil {
		return b
	}
	return make([]byte, 0, (n+shelfStep-1)/shelfStep*shelfStep)
}

// smallest takes the smallest cached buffer with room for n bytes, nil for none.
func (s *shelf) smallest(n int) (b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var from *[]byte
	for i := range s.kept {
		if k := &s.kept[i]; cap(*k) >= n && (from == nil || cap(*k) < cap(*from)) {
			from = k
		}
	}
	if from != nil {
		b, *from = *from, nil
	}
	return b
}

// put caches a buffer in an empty slot or in place of a smaller one.
func (s *shelf) put(b []byte) {
	// The buffer is not from take, or too large.
	if cap(b)%shelfStep != 0 || cap(b) > shelfLargest {
		return
	}
	if overwrites {
		clear(b[:cap(b)])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	smallest := &s.kept[0]
	for i := range s.kept {
		if cap(s.kept[i]) < cap(*smallest) {
			smallest = &s.kept[i]
		}
	}
	if cap(*smallest) < cap(b) {
		*smallest = b[:0]
	}
	if s.clear == nil {
		s.clear = time.AfterFunc(shelfLife, s.empty)
		return
	}
	s.clear.Reset(shelfLife)
}

// empty drops the cached buffers.
func (s *shelf) empty() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = [2][]byte{}
}

// Slices recycles slices. A conversation's data is rebuilt from its previous data with every
// request. There is one pool for each size, see sizeOf. The zero value is ready to use.
type Slices[T any] struct {
	// Plain: recycled slices are not zeroed, because every element is written before it is read.
	// Default: false.
	Plain bool

	pools   [209]sync.Pool
	headers sync.Pool // recycles the slice headers that pools require behind a pointer
}

// Sizes up to slicesLinear elements are multiples of slicesStep. Larger sizes have at most a
// sixteenth of spare room, because slices live as long as a conversation.
const (
	slicesStep   = 32
	slicesLinear = 64 * slicesStep
)

// sizeOf returns the capacity of a slice for n elements, and the index of its pool.
func sizeOf(n int) (size, class int) {
	if n <= slicesLinear {
		class = (n + slicesStep - 1) / slicesStep
		return class * slicesStep, class
	}
	shift := bits.Len(uint(n-1)) - 5
	steps := (n + 1<<shift - 1) >> shift // 17 to 32
	return steps << shift, 48 + 16*(shift-7) + steps
}

// Make returns an empty slice with a capacity of at least n elements, zeroed unless Plain.
func (s *Slices[T]) Make(n int) []T {
	size, class := sizeOf(n)
	if class < len(s.pools) {
		if h, ok := s.pools[class].Get().(*[]T); ok {
			v := *h
			*h = nil
			s.headers.Put(h)
			return v
		}
	}
	return make([]T, 0, size)
}

// Recycle returns a slice to its pool. The slice must no longer be used.
func (s *Slices[T]) Recycle(v []T) {
	size, class := sizeOf(cap(v))
	// The slice is not from Make.
	if class == 0 || class >= len(s.pools) || cap(v) != size {
		return
	}
	if !s.Plain || overwrites {
		clear(v[:cap(v)])
	}
	h, ok := s.headers.Get().(*[]T)
	if !ok {
		h = new([]T)
	}
	*h = v[:0]
	s.pools[class].Put(h)
}

// Append is append for slices that may become long.
func Append[T any](s []T, v ...T) []T {
	const long = 4096
	// Doubling: append's own growth by a quarter would leave four times the final size as garbage.
	if len(s)+len(v) > cap(s) && cap(s) >= long {
		s = slices.Grow(s, max(cap(s), len(v)))
	}
	return append(s, v...)
}

// names caches strings that repeat across requests, such as model and host names. A newer string
// replaces the older one in its slot.
var names [1024]atomic.Pointer[string]

var seed = maphash.MakeSeed()

// maxName is the maximum length of a cached string, in bytes.
const maxName = 256

// Intern returns string(b) from a cache of strings with few distinct values. b must not be secret,
// because the cache has no expiry.
func Intern(b []byte) string {
	if len(b) > maxName {
		return string(b)
	}
	at := &names[maphash.Bytes(seed, b)%uint64(len(names))]
	if s := at.Load(); s != nil && *s == string(b) {
		return *s
	}
	s := string(b)
	at.Store(&s)
	return s
}
