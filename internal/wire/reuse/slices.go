// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package reuse keeps the memory of bodies and slices that are done with, for those that come, and of
// strings that come again.
package reuse

import (
	"math/bits"
	"slices"
	"sync"
)

// Slices keeps slices that are done with, to be used again: what is remembered of
// a conversation is made anew with every request, from what was remembered
// before. There is one pool for each size of slices, see sizeOf. The zero value is ready to
// use.
type Slices[T any] struct {
	// Plain says that no element is read that was not written: they are left as they
	// were. Default: false, they are zero.
	Plain bool

	pools   [209]sync.Pool
	headers sync.Pool // what slices stand in while they are in a pool
}

// Sizes up to slicesLinear elements are multiples of slicesStep, larger ones have a
// sixteenth of spare room at most: it lives as long as a conversation.
const (
	slicesStep   = 32
	slicesLinear = 64 * slicesStep
)

// sizeOf returns the size of a slice for n elements, and which of all sizes that is.
func sizeOf(n int) (size, class int) {
	if n <= slicesLinear {
		class = (n + slicesStep - 1) / slicesStep
		return class * slicesStep, class
	}
	shift := bits.Len(uint(n-1)) - 5
	steps := (n + 1<<shift - 1) >> shift // 17 to 32
	return steps << shift, 48 + 16*(shift-7) + steps
}

// Make returns an empty slice with room for at least n elements, all zero if they are not Plain.
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

// Recycle takes a slice back. Nothing may use it from here on.
func (s *Slices[T]) Recycle(v []T) {
	size, class := sizeOf(cap(v))
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

// Append is append for slices that may become long: they double, where append's own
// steps of a quarter leave four times their size behind.
func Append[T any](s []T, v ...T) []T {
	const long = 4096
	if len(s)+len(v) > cap(s) && cap(s) >= long {
		s = slices.Grow(s, max(cap(s), len(v)))
	}
	return append(s, v...)
}
