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
