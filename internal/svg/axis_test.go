// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package svg

import (
	"strings"
	"testing"
)

func TestAxis(t *testing.T) {
	for _, test := range []struct {
		low, high float64
		want      string
	}{
		{0, 160_000, "0 50k 100k 150k 200k"},
		{0, 1_400_000, "0 200k 400k 600k 800k 1M 1.2M 1.4M"},
		{-25, 8, "-25 -20 -15 -10 -5 0 5 10"},
		{0, 0.7, "0 0.1 0.2 0.3 0.4 0.5 0.6 0.7"},
		{0, 0, "0 0.2 0.4 0.6 0.8 1"},
	} {
		var got []string
		a := NewAxis(test.low, test.high, 0, 100, 7)
		for _, v := range a.Ticks() {
			got = append(got, Kilo(v))
		}
		if strings.Join(got, " ") != test.want || a.At(a.min) != 0 || a.At(a.max) != 100 {
			t.Errorf("%v to %v: %v, want %s", test.low, test.high, got, test.want)
		}
	}
}
