// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package reuse

import (
	"sync"
	"time"
)

const (
	// shelfStep is what sizes on a shelf are multiples of: the next body of a
	// conversation is a little larger.
	shelfStep = 4 << 20
	// shelfLargest is room for a body of 32 MiB, and the byte at which its end is met.
	shelfLargest = 36 << 20
	// shelfLife is how long buffers are kept that nobody needs.
	shelfLife = 10 * time.Second
)

// shelf keeps two buffers that are larger than those in the pools, for the next bodies as
// large. A pool would keep all that a rush of them has left, until the garbage collector
// has something to do. The zero value is ready to use.
type shelf struct {
	mu    sync.Mutex
	kept  [2][]byte
	clear *time.Timer
}

// take returns an empty slice with room for at least n bytes.
func (s *shelf) take(n int) []byte {
	if b := s.smallest(n); b != nil {
		return b
	}
	return make([]byte, 0, (n+shelfStep-1)/shelfStep*shelfStep)
}

// smallest takes the smallest that has room for n bytes, nil if none has.
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

// put keeps a slice that is done with, in an empty place or that of a smaller one.
func (s *shelf) put(b []byte) {
	if cap(b)%shelfStep != 0 || cap(b) > shelfLargest {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	least := &s.kept[0]
	for i := range s.kept {
		if cap(s.kept[i]) < cap(*least) {
			least = &s.kept[i]
		}
	}
	if cap(*least) < cap(b) {
		*least = b[:0]
	}
	if s.clear == nil {
		s.clear = time.AfterFunc(shelfLife, s.empty)
		return
	}
	s.clear.Reset(shelfLife)
}

// empty forgets what is kept.
func (s *shelf) empty() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = [2][]byte{}
}
