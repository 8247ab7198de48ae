// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package option

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxListed bounds the options that are listed if none is similar.
const maxListed = 16

// suggestion names the most similar known option, or lists all options if they are few.
func suggestion(written string, known Options) string {
	names := slices.Sorted(maps.Keys(known))
	if near := Nearest(written, names); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	if len(names) == 0 || len(names) > maxListed {
		return ""
	}
	return ", which has " + strings.Join(names, ", ")
}

// Nearest returns the most similar name, "" if none is similar enough.
func Nearest(written string, names []string) string {
	// Tolerate one mistake, and another one for every three letters.
	best, nearest := "", 1+len(written)/3
	for _, name := range names {
		if d := distance(written, name); d <= nearest && (best == "" || d < distance(written, best)) {
			best = name
		}
	}
	return best
}

// distance is the Levenshtein distance of two words, in bytes.
func distance(a, b string) int {
	// One row of the distance matrix at a time.
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost = 1 + min(before, row[j], row[j+1])
			}
			before, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
