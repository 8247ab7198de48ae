// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package reuse

import (
	"strings"
	"testing"
)

// TestIntern: equal strings are interned correctly, also after another string has taken their slot.
func TestIntern(t *testing.T) {
	b := []byte("claude-opus-5-5")
	if s := Intern(b); s != "claude-opus-5-5" {
		t.Fatal(s)
	}
	if n := testing.AllocsPerRun(100, func() { Intern(b) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	for i := range 4 * len(names) {
		other := strings.Repeat("n", i%300)
		if s := Intern([]byte(other)); s != other {
			t.Fatal(s, other)
		}
	}
}
