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

// quantile returns the q-th quantile, zero of nothing.
func quantile[T ~int64 | ~float64](v []T, q float64) T {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return v[int(q*float64(len(v)-1)+0.5)]
}

func median[T ~int64 | ~float64](v []T) T { return quantile(v, 0.5) }

// interval returns what the median of what was drawn lies between, with a confidence of
// 95 % or more: the ranks beyond which it is in one case of twenty at most, whatever the
// distribution. Of fewer than six values there is none: both ends are returned as they are.
func interval(v []float64) (low, high float64) {
	if len(v) == 0 {
		return 0, 0
	}
	v = slices.Sorted(slices.Values(v))
	rank, left, chance := 0, 0.05, math.Pow(0.5, float64(len(v)))
	for k := 0; ; k++ { // chance: that k of them are below the median
		if left -= 2 * chance; left < 0 {
			break
		}
		rank, chance = k, chance*float64(len(v)-k)/float64(k+1)
	}
	return v[rank], v[len(v)-1-rank]
}

// within is the median of ratios and its interval.
func within(v []float64) string { return spread("%.2f", v) }

// spread writes a median and its interval, each number in a format.
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
