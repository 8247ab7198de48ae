// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
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

// appendLines appends the hashes of the quotable lines of a text, and counts the lines that look
// like source code.
func appendLines(hashes []uint64, text string) (lines []uint64, source int) {
	for line := range strings.Lines(text) {
		if q, ok := Quotable(line); ok {
			hashes = append(hashes, Hash(q))
			if isSource(q) {
				source++
			}
		}
	}
	return hashes, source
}

// isSource reports whether a line looks like source code.
func isSource(line string) bool {
	return strings.IndexByte("{}()[];,<>=", line[len(line)-1]) >= 0 || strings.Contains(line, " = ") || strings.Contains(line, "(\"")
}

// minQuote is the minimum length of a line that counts as a quotation when it is in a tool result
// and in a response.
const minQuote = 25

// Quotable normalizes a line for comparisons: without indentation, line number, file name of a
// search hit, and diff sign. It returns false for a line too short to quote.
func Quotable(line string) (string, bool) {
	if len(line) < minQuote {
		return "", false
	}
	line = unnumbered(strings.TrimSpace(line))
	if len(line) > 0 && (line[0] == '+' || line[0] == '-') {
		line = strings.TrimSpace(line[1:])
	}
	return line, len(line) >= minQuote
}

// unnumbered returns a line without a leading line number or file name with line number.
func unnumbered(line string) string {
	if rest, ok := numbered(line); ok {
		return rest
	}
	i := strings.IndexByte(line, ':')
	if i <= 0 || i > mostName || strings.IndexByte(line[:i], ' ') >= 0 {
		return line
	}
	if rest, ok := numbered(line[i+1:]); ok {
		return rest
	}
	return line
}

// mostName is the maximum length of a file name before a line number.
const mostName = 160

// numbered returns the text after a line number.
func numbered(line string) (string, bool) {
	i := 0
	for i < len(line) && line[i] >= '0' && line[i] <= '9' {
		i++
	}
	if i == 0 || i == len(line) {
		return "", false
	}
	rest := line[i:]
	switch rest[0] {
	case '\t', ':', '|', '-':
		return strings.TrimSpace(rest[1:]), true
	case "→"[0]:
		if after, ok := strings.CutPrefix(rest, "→"); ok {
			return strings.TrimSpace(after), true
		}
	}
	return "", false
}

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
