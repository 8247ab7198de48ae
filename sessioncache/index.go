// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

// Index finds what belongs to an owner by hashes.

import "slices"

// ownerIndex finds what belongs to an owner by hashes. What came last under one is found.
type ownerIndex[Owner, Hash, T comparable] map[key[Owner, Hash]]T

type key[Owner, Hash comparable] struct {
	owner Owner
	hash  Hash
}

// Find returns what an owner has under a hash, zero if that is nothing.
func (x ownerIndex[Owner, Hash, T]) Find(o Owner, h Hash) T { return x[key[Owner, Hash]{o, h}] }

// Move has something found by other hashes than before. It returns those, in the memory of
// the ones before if they fit.
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
