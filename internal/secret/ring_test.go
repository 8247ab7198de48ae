// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"slices"
	"testing"
)

// Data sealed under one of the latest keys can be opened, and only together with its authenticated
// data.
func TestSeals(t *testing.T) {
	key := func(n int) Key { return Key{byte(n + 1)} }
	s, err := NewSeals("test", key(0))
	if err != nil {
		t.Fatal(err)
	}
	use := func(n int, other bool) {
		t.Helper()
		if got, err := s.Use(key(n)); err != nil || got != other {
			t.Fatalf("key %d is another one: %t, %v", n, got, err)
		}
	}
	of := []byte("of it")
	var sealed [][]byte
	for n := range maxFormer + 2 {
		use(n, n > 0)
		use(n, false)
		sealed = append(sealed, s.Seal(nil, []byte{byte(n)}, of))
	}
	opens := func() (which []byte) {
		for _, b := range sealed {
			if text, err := s.Open(b, of); err == nil {
				which = append(which, text...)
			}
		}
		return which
	}
	if got := opens(); !slices.Equal(got, []byte{1, 2, 3, 4, 5}) {
		t.Errorf("the texts of keys %d can be read", got)
	}
	use(1, true) // in use again, and only once in the ring
	use(6, true)
	if got := opens(); !slices.Equal(got, []byte{1, 3, 4, 5}) {
		t.Errorf("the texts of keys %d can be read", got)
	}
	if _, err := s.Open(sealed[5], []byte("of another")); err == nil {
		t.Error("a text can be read that belongs to something else")
	}
}
