// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package reuse

import (
	"sync"
	"time"
)

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

// take returns an empty slice with a capacity of at least n bytes.
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

// empty drops the cached buffers.
func (s *shelf) empty() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = [2][]byte{}
}
