// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"strings"
)

// appendLines appends the hashes of the quotable lines of a text, and counts those that
// look like source code.
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

// isSource reports whether a line looks like one of source code, as most of its lines do.
func isSource(line string) bool {
	return strings.IndexByte("{}()[];,<>=", line[len(line)-1]) >= 0 || strings.Contains(line, " = ") || strings.Contains(line, "(\"")
}

// minQuote is the length from which a line is taken to be a quotation when it
// stands both in a tool result and in an answer.
const minQuote = 25

// Quotable brings a line into the form in which quotations are compared: without
// indentation and without what tools put before it: a line number, the file and the
// number where it was found, the sign of a diff.
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

// unnumbered returns a line without the number in front of it, and without the name of
// the file in front of that.
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

// mostName is the length up to which what stands before a line number is a file.
const mostName = 160

// numbered returns what stands behind a line number.
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
