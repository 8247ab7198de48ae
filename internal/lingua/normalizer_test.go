// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import (
	"encoding/json"
	"os"
	"testing"
	"unicode"
)

// TestRunes compares the dropped runes, spaces and single-rune words with Hugging Face's normalizer
// and splitter, for all of Unicode. Theirs use another version of Unicode.
func TestRunes(t *testing.T) {
	b, err := os.ReadFile("testdata/classes.json")
	if err != nil {
		t.Fatal(err)
	}
	var ranges [][3]rune
	if err := json.Unmarshal(b, &ranges); err != nil {
		t.Fatal(err)
	}
	next := rune(0)
	for _, r := range ranges {
		if r[0] != next {
			t.Fatalf("%U follows %U", r[0], next)
		}
		next = r[1] + 1
		for c := r[0]; c <= r[1]; c++ {
			got := rune(0)
			switch {
			case c >= 0xd800 && c < 0xe000:
				got = 9
			case dropped(c):
				got = 1
			case unicode.IsSpace(c):
				got = 2
			case ideograph(c), punctuation(c):
				got = 3
			}
			if got != r[2] {
				t.Errorf("%U is %d, want %d", c, got, r[2])
			}
		}
	}
	if next != unicode.MaxRune+1 {
		t.Fatalf("ends at %U", next)
	}
}

// TestUncased compares the normalizer of uncased models with examples from Hugging Face's.
func TestUncased(t *testing.T) {
	n := bertNormalizer{Clean: true, Chinese: true, Lowercase: true}
	for s, want := range map[string]string{
		"HÉLLO\tWörld":   "hello world",
		"İstanbul ΣΑΣ":   "istanbul σασ",
		"한글 中x\u0000":    "\u1112\u1161\u11ab\u1100\u1173\u11af  中 x",
		"Ångström\u00a0": "angstrom ",
	} {
		if got := n.normalize(s); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}
