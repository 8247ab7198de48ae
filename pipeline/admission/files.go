// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"strings"
)

// numberedLine measures the line number that a tool such as cat -n puts before a line of a file:
// blanks, digits, and an arrow or a tab. Without a number, digits is 0.
func numberedLine(line string) (pad, digits, separator int) {
	for pad < len(line) && line[pad] == ' ' {
		pad++
	}
	i := pad
	for i < len(line) && line[i] >= '0' && line[i] <= '9' {
		i++
	}
	switch {
	case i == pad || i-pad > 9:
	case strings.HasPrefix(line[i:], "\t"):
		return pad, i - pad, 1
	case strings.HasPrefix(line[i:], "→"):
		return pad, i - pad, len("→")
	}
	return 0, 0, 0
}

// numberedRun measures the run of numbered lines from an offset on. The numbers are consecutive,
// and all padded to one width or all unpadded. It returns the end of the run, the number of lines,
// and the bytes of padding.
func numberedRun(s string, from int) (end, lines, padding int) {
	before, width, sep := 0, 0, 0
	bare := true // every number so far fits an unpadded run
	for end = from; end < len(s); {
		pad, n, separator := numberedLine(s[end:])
		if n == 0 {
			break
		}
		number := 0
		for _, c := range s[end+pad : end+pad+n] {
			number = 10*number + int(c-'0')
		}
		if lines > 0 && (number != before+1 || separator != sep) {
			break
		}
		switch {
		case lines == 0:
			width = pad + n
		case pad+n == width:
		case pad == 0 && (padding == 0 && bare || n > width):
		default:
			return end, lines, padding
		}
		bare = bare && pad == 0
		before, sep = number, separator
		padding += pad
		lines++
		i := strings.IndexByte(s[end:], '\n')
		if i < 0 {
			return len(s), lines, padding
		}
		end += i + 1
	}
	return end, lines, padding
}

// minNumbered is the minimum number of lines for numbers to count as line numbers.
const minNumbered = 5

// numberedRuns calls yield for each run of numbered lines.
func numberedRuns(s string, yield func(from, end, lines, padding int)) {
	if !strings.Contains(s, "→") && !strings.Contains(s, "\t") {
		return
	}
	for from := 0; from < len(s); {
		end, lines, padding := numberedRun(s, from)
		if lines >= minNumbered {
			yield(from, end, lines, padding)
		}
		if lines == 0 {
			i := strings.IndexByte(s[from:], '\n')
			if i < 0 {
				return
			}
			end = from + i + 1
		}
		from = end
	}
}

// dropPadding removes the blanks before line numbers. The lines themselves stay unchanged.
func dropPadding(s string) string {
	var out strings.Builder
	copied := 0
	numberedRuns(s, func(from, end, _, padding int) {
		if padding == 0 {
			return
		}
		if copied == 0 {
			out.Grow(len(s))
		}
		out.WriteString(s[copied:from])
		for line := range strings.Lines(s[from:end]) {
			out.WriteString(strings.TrimLeft(line, " "))
		}
		copied = end
	})
	if copied == 0 {
		return s
	}
	out.WriteString(s[copied:])
	return out.String()
}

// dropEcho replaces the numbered lines of a file by a note if the call itself wrote them.
func dropEcho(s, written string) string {
	if len(written) < minAdmission || len(s) < len(written) {
		return s
	}
	var out strings.Builder
	copied := 0
	numberedRuns(s, func(from, end, lines, _ int) {
		if !echoes(s[from:end], written) {
			return
		}
		out.WriteString(s[copied:from])
		fmt.Fprintf(&out, "%s%d lines, as written by the call]", Note, lines)
		if s[end-1] == '\n' {
			out.WriteByte('\n')
		}
		copied = end
	})
	if copied == 0 {
		return s
	}
	out.WriteString(s[copied:])
	return out.String()
}

// echoes reports whether numbered lines equal a text, from its first line to its last.
func echoes(numbered, text string) bool {
	for line := range strings.Lines(numbered) {
		pad, n, sep := numberedLine(line)
		line = chomp(line[pad+n+sep:])
		want, rest, more := strings.Cut(text, "\n")
		if strings.TrimRight(want, "\r") != line {
			return false
		}
		if !more {
			text = ""
			continue
		}
		text = rest
	}
	return text == ""
}

// groupHits moves the path of search hits in one file to a line of its own above them, as search
// programs do on a terminal.
func groupHits(s string) string {
	if strings.Count(s, ":") < 4 && strings.Count(s, "-") < 4 {
		return s
	}
	var out strings.Builder
	copied, from := 0, 0
	for from < len(s) {
		path := hitPath(s[from:])
		if path == 0 {
			from = lineEnd(s, from)
			continue
		}
		prefix := s[from : from+path]
		hits, end := 0, from
		for at := from; at < len(s); at = lineEnd(s, at) {
			if strings.HasPrefix(s[at:], prefix) && hitPath(s[at:]) == path {
				hits++
				end = lineEnd(s, at)
			} else if !strings.HasPrefix(s[at:], "--\n") {
				break
			}
		}
		if (hits-1)*(path+1) > 24 && hits > 1 {
			out.WriteString(s[copied:from])
			out.WriteString(prefix)
			out.WriteString(":\n")
			for line := range strings.Lines(s[from:end]) {
				if len(line) > path && strings.HasPrefix(line, prefix) {
					line = line[path+1:]
				}
				out.WriteString(line)
			}
			copied = end
		}
		from = end
	}
	if copied == 0 {
		return s
	}
	out.WriteString(s[copied:])
	return out.String()
}

// hitPath returns the length of the path at the start of a search hit, 0 if the line is none:
// path:12:text, or path-12-text for context lines.
func hitPath(line string) int {
	named := false // the path contains a dot or a slash
	for i := 0; i < len(line) && i < 400; i++ {
		switch c := line[i]; {
		case c == '/' || c == '.':
			named = true
		case (c == ':' || c == '-') && named && i > 0:
			n := i + 1
			for n < len(line) && line[n] >= '0' && line[n] <= '9' {
				n++
			}
			if n > i+1 && n < len(line) && line[n] == c {
				return i
			}
			if c == ':' {
				return 0
			}
		case c == ':' || c == '\n' || c == ' ' || c == '\t' || c == '"' || c == '(':
			return 0
		}
	}
	return 0
}
