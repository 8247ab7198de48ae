// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"iter"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Hash is the same in every process. Edits and samples depend on it and must not change with a
// restart or an update.
func Hash(s string) uint64 { return xxhash.Sum64String(s) }

// inWord marks the bytes of paths and words. Non-ASCII bytes separate words, as quotation marks and
// arrows do.
var inWord = func() (table [256]bool) {
	for c := range table {
		table[c] = c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c < 0x80 && strings.IndexByte("_./-~@+", byte(c)) >= 0
	}
	return table
}()

// Words yields the words of a text, made of the characters of paths.
func Words(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := 0; i < len(s); i++ {
			if !inWord[s[i]] {
				continue
			}
			start := i
			for i < len(s) && inWord[s[i]] {
				i++
			}
			if !yield(s[start:i]) {
				return
			}
		}
	}
}
