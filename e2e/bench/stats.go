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

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// quantile returns the q-th quantile, zero of nothing.
func quantile[T ~int64 | ~float64](v []T, q float64) T {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return v[int(q*float64(len(v)-1)+0.5)]
}

func median[T ~int64 | ~float64](v []T) T { return quantile(v, 0.5) }

// differences returns a - b, round by round.
func differences(a, b []time.Duration) []time.Duration {
	d := make([]time.Duration, len(a))
	for i := range a {
		d[i] = a[i] - b[i]
	}
	return d
}

func ms(d time.Duration) string { return fmt.Sprintf("%.3f", float64(d)/float64(time.Millisecond)) }

// row prints a line of a Markdown table.
func row(cells ...string) { fmt.Println("| " + strings.Join(cells, " | ") + " |") }

// heading prints a title and the head of a Markdown table; all columns but the
// first two hold numbers.
func heading(title string, cells ...string) {
	fmt.Printf("\n### %s\n\n", title)
	row(cells...)
	for i := range cells {
		cells[i] = "---:"
		if i < 2 {
			cells[i] = "---"
		}
	}
	row(cells...)
}
