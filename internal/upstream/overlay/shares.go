// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import "github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"

// shares keeps values by name within a number of bytes. Each has an owner. Whoever
// holds more than a quarter of a full store gives way first, by what they have not
// used for longest; else what nobody has used for longest goes.
type shares[V any] struct {
	*lru.Cache[string, string, V]
	most int
}

func newShares[V any](most int) *shares[V] {
	return &shares[V]{lru.New[string, string, V](), most}
}

// share is the most that one value may take, and one owner of a full store.
func (s *shares[V]) share() int { return s.most / 4 }

// put keeps a value in the place of the one of that name, unless it is too large.
func (s *shares[V]) put(name, of string, value V, size int) {
	if size > s.share() {
		s.forget(name)
		return
	}
	s.Put(name, of, value, int64(size))
	for s.Bytes() > int64(s.most) {
		all := s.Oldest()
		if s.BytesOf(of) > int64(s.share()) {
			all = s.OldestOf(of)
		}
		for e := range all {
			s.Drop(e)
			break
		}
	}
}

// forget forgets the value of a name.
func (s *shares[V]) forget(name string) {
	if e := s.Get(name); e != nil {
		s.Drop(e)
	}
}
