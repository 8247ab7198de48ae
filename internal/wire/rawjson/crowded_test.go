// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"bytes"
	"strings"
	"testing"
)

// TestCrowdedCounts compares the early-stopping count with a simple one.
func TestCrowdedCounts(t *testing.T) {
	separator := func(n int) string { return strings.Repeat(",{[", n/3+1)[:n] }
	text := func(n int) string { return strings.Repeat("x", n) }
	for name, body := range map[string]string{
		"as many as may be": separator(MaxValues),
		"one more":          separator(MaxValues + 1),
		"behind text":       text(3<<20) + separator(MaxValues+1),
		"in front of text":  separator(MaxValues+1) + text(3<<20),
		"around text":       separator(MaxValues) + text(70<<10) + separator(1),
		"nearly":            separator(MaxValues) + text(5<<20),
		"text":              text(4 << 20),
		"short":             separator(100),
	} {
		n := 0
		for _, c := range separators {
			n += bytes.Count([]byte(body), []byte{c})
		}
		if got := Crowded([]byte(body)); got != (n > MaxValues) {
			t.Errorf("%s: %t with %d values", name, got, n)
		}
	}
}
