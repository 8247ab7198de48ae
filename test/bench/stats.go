// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// quantile returns the q-th quantile, 0 for an empty sample.
func quantile[T ~int64 | ~float64](v []T, q float64) T {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return v[int(q*float64(len(v)-1)+0.5)]
}

func median[T ~int64 | ~float64](v []T) T { return quantile(v, 0.5) }

// interval returns a confidence interval of the median of at least 95 %, by order statistics, for
// any distribution. For fewer than six values it returns the extremes.
func interval(v []float64) (low, high float64) {
	if len(v) == 0 {
		return 0, 0
	}
	v = slices.Sorted(slices.Values(v))
	rank, left, chance := 0, 0.05, math.Pow(0.5, float64(len(v)))
	for k := 0; ; k++ { // probability that k values are below the median
		if left -= 2 * chance; left < 0 {
			break
		}
		rank, chance = k, chance*float64(len(v)-k)/float64(k+1)
	}
	return v[rank], v[len(v)-1-rank]
}

// within formats the median of ratios with its interval.
func within(v []float64) string { return spread("%.2f", v) }

// spread formats a median with its interval.
func spread(format string, v []float64) string {
	low, high := interval(v)
	return fmt.Sprintf(format+" ("+format+" to "+format+")", median(v), low, high)
}

// ratios returns a / b, round by round.
func ratios[T ~int64 | ~float64](a, b []T) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = float64(a[i]) / float64(b[i])
	}
	return out
}

// inMS returns durations in milliseconds.
func inMS(v []time.Duration) []float64 {
	out := make([]float64, len(v))
	for i, d := range v {
		out[i] = float64(d) / float64(time.Millisecond)
	}
	return out
}

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

// heading prints a title and the head of a Markdown table. All columns but the first two hold
// numbers.
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
