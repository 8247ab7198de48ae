// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"strings"
	"unicode/utf8"
)

// CountLines counts the lines of a text, including an unterminated last line.
func CountLines(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}

// HeadLines returns the first up to n non-blank lines, each cut to width characters.
func HeadLines(s string, n, width int) []string {
	out := make([]string, 0, n)
	for line := range strings.Lines(s) {
		if len(out) == n {
			break
		}
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, Clip(line, width))
		}
	}
	return out
}

// Clip cuts a text to a number of characters and marks the cut by an ellipsis.
func Clip(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	n := 0
	for i := range s {
		if n++; n == width {
			return s[:i] + "…"
		}
	}
	return s
}
