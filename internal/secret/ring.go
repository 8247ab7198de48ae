// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"slices"
	"sync"
)

// maxFormer bounds the former keys that are remembered.
const maxFormer = 4

// Ring has a value for the present key and for each former key, so that data under a former key
// stays readable.
type Ring[T any] struct {
	of func(Key) (T, error)

	mu  sync.Mutex
	all []made[T] // the present one first; the slice is replaced, never modified
}

type made[T any] struct {
	key Key
	of  T
}

// NewRing makes a ring with its first key. of makes the value for a key.
func NewRing[T any](of func(Key) (T, error), first Key) (*Ring[T], error) {
	r := &Ring[T]{of: of}
	_, err := r.Use(first)
	return r, err
}

// Use makes key the present key. It reports whether the key has changed.
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
	r.all = append([]made[T]{{key, now}}, before[:min(len(before), maxFormer)]...)
	return true, nil
}

// Now returns the value for the present key.
func (r *Ring[T]) Now() T { return r.known()[0].of }

// All yields the values for the present key and the former keys, the latest first.
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
