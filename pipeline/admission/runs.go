// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"strings"
)

// Note is the beginning of every note in place of removed text.
const Note = "[llm_cache: "

// minCollapsed is the minimum number of bytes removed from a run of lines. A shorter run says more
// than the note.
const minCollapsed = 120

// collapse replaces the middle of each run of lines of one class by a note. class returns the class
// of a line, or 0 for none. least is the minimum number of lines in a run, and first and last are
// the numbers of lines that stay at either end.
func collapse(
	s string, minLines, first, last int, class func(line string) uint64, note func(n int) string,
) string {
	var out strings.Builder
	run, from, copied := uint64(0), 0, 0 // class and start of the run; end of the text already handled
	starts := make([]int, 0, 64)         // of the run's lines
	done := func(end int) {
		n := len(starts) - first - last
		if run == 0 || len(starts) < minLines || n < 1 {
			return
		}
		a, b := starts[first], end
		if last > 0 {
			b = starts[len(starts)-last]
		}
		text := note(n)
		if b-a < len(text)+1+minCollapsed {
			return
		}
		out.WriteString(s[copied:a])
		out.WriteString(text)
		if s[b-1] == '\n' {
			out.WriteByte('\n')
		}
		copied = b
	}
	for from < len(s) {
		end := lineEnd(s, from)
		c := class(chomp(s[from:end]))
		if c != run {
			done(from)
			run, starts = c, starts[:0]
		}
		if c != 0 {
			starts = append(starts, from)
		}
		from = end
	}
	done(len(s))
	if copied == 0 {
		return s
	}
	out.WriteString(s[copied:])
	return out.String()
}

// lineEnd returns the end of the line that begins at an offset.
func lineEnd(s string, from int) int {
	if i := strings.IndexByte(s[from:], '\n'); i >= 0 {
		return from + i + 1
	}
	return len(s)
}

// chomp removes a line's end.
func chomp(line string) string {
	n := len(line)
	for n > 0 && (line[n-1] == '\n' || line[n-1] == '\r') {
		n--
	}
	return line[:n]
}

// alarms are words of lines about errors, by first letter.
var alarms = byFirst(
	"error", "fail", "fatal", "panic", "exception", "traceback", "warn", "denied", "refused", "undefined", "not found",
	"timed out", "killed", "abort", "assert",
	"✗", "✘", "×",
)

// byFirst groups words by their first byte.
func byFirst(words ...string) (table [256][]string) {
	for _, w := range words {
		table[w[0]] = append(table[w[0]], w)
	}
	return table
}

// alarming reports whether a line looks like an error.
func alarming(line string) bool {
	line = line[:min(len(line), 1000)]
	for i := range len(line) {
		c := line[i]
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		for _, a := range alarms[c] {
			if len(a) <= len(line)-i && strings.EqualFold(line[i:i+len(a)], a) {
				return true
			}
		}
	}
	return strings.HasPrefix(line, "E ") // pytest
}
