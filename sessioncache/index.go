// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

// The index of values by owner and hash.

import "slices"

// ownerIndex finds values by owner and hash. Under each hash it has the latest value.
type ownerIndex[Owner, Hash, T comparable] map[key[Owner, Hash]]T

type key[Owner, Hash comparable] struct {
	owner Owner
	hash  Hash
}

// Find returns an owner's value under a hash, zero if there is none.
func (x ownerIndex[Owner, Hash, T]) Find(o Owner, h Hash) T { return x[key[Owner, Hash]{o, h}] }

// Move indexes a value under new hashes instead of the ones before. It returns the new hashes, in
// the memory of the old ones if they fit.
func (x ownerIndex[Owner, Hash, T]) Move(o Owner, it T, before, now []Hash) []Hash {
	if !slices.Equal(before, now) {
		for _, h := range before {
			if k := (key[Owner, Hash]{o, h}); x[k] == it {
				delete(x, k)
			}
		}
		before = append(before[:0], now...)
	}
	for _, h := range before {
		if k := (key[Owner, Hash]{o, h}); x[k] != it {
			x[k] = it
		}
	}
	return before
}
