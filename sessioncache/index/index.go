// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

// Package index finds what belongs to an owner by hashes.
package index

import "slices"

// Index finds what belongs to an owner by hashes. What came last under one is found.
type Index[Owner, Hash, T comparable] map[key[Owner, Hash]]T

type key[Owner, Hash comparable] struct {
	owner Owner
	hash  Hash
}

// Find returns what an owner has under a hash, zero if that is nothing.
func (x Index[Owner, Hash, T]) Find(o Owner, h Hash) T { return x[key[Owner, Hash]{o, h}] }

// Move has something found by other hashes than before. It returns those, in the memory of
// the ones before if they fit.
func (x Index[Owner, Hash, T]) Move(o Owner, it T, before, now []Hash) []Hash {
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
