// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package reuse recycles the memory of bodies and slices and interns repeated strings.
package reuse

import (
	"math/bits"
	"slices"
	"sync"
)

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
	if !s.Plain {
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
