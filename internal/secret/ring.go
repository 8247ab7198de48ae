// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"slices"
	"sync"
)

// mostFormer is how many keys are remembered besides the one in use.
const mostFormer = 4

// Ring holds what is made of a key: of the one in use, and of those before it, so that what they
// have sealed can still be read.
type Ring[T any] struct {
	of func(Key) (T, error)

	mu  sync.Mutex
	all []made[T] // the one in use first; it is never written to, but replaced
}

type made[T any] struct {
	key Key
	of  T
}

// NewRing makes a ring of what comes of keys, with the first of them.
func NewRing[T any](of func(Key) (T, error), first Key) (*Ring[T], error) {
	r := &Ring[T]{of: of}
	_, err := r.Use(first)
	return r, err
}

// Use has a key be the one in use. It reports whether it is another one.
func (r *Ring[T]) Use(key Key) (other bool, err error) {
	now, err := r.of(key)
	if err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) > 0 && r.all[0].key == key {
		return false, nil
	}
	before := slices.DeleteFunc(slices.Clone(r.all), func(m made[T]) bool { return m.key == key })
	r.all = append([]made[T]{{key, now}}, before[:min(len(before), mostFormer)]...)
	return true, nil
}

// Now is what was made of the key in use.
func (r *Ring[T]) Now() T { return r.known()[0].of }

// All yields what was made of the key in use, and of those before it, the last first.
func (r *Ring[T]) All(yield func(i int, of T) bool) {
	for i, m := range r.known() {
		if !yield(i, m.of) {
			return
		}
	}
}

func (r *Ring[T]) known() []made[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all
}
