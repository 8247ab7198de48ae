// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func TestSlower(t *testing.T) {
	for _, c := range []struct {
		name   string
		change []float64
		margin float64
		want   bool
	}{
		{"nothing measured", nil, 0.03, false},
		{"too few rounds", []float64{0.5, 0.5, 0.5, 0.5, 0.5}, 0.03, false},
		{"the same", []float64{1, 1.01, 0.99, 1, 1, 1.02}, 0.03, false},
		{"quicker", []float64{1.2, 1.3, 1.2, 1.1, 1.2, 1.2}, 0.03, false},
		{"slower throughout", []float64{0.9, 0.91, 0.89, 0.9, 0.92, 0.9}, 0.03, true},
		{"within the margin", []float64{0.98, 0.98, 0.98, 0.98, 0.98, 0.98}, 0.03, false},
		{"at the margin", []float64{0.75, 0.75, 0.75, 0.75, 0.75, 0.75}, 0.25, false},
		{"no margin", []float64{0.98, 0.98, 0.98, 0.98, 0.98, 0.98}, 0, true},
		{"one of six rounds as before", []float64{0.9, 0.9, 0.9, 0.9, 0.9, 1}, 0.03, false},
		{"one of nine rounds as before", []float64{0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 1}, 0.03, true},
		{"noise on both sides", []float64{0.7, 1.3, 0.8, 1.2, 0.9, 1.1, 0.6, 1.4, 0.9}, 0.03, false},
	} {
		if got := slower(c.change, c.margin); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}
