// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// spelling is the form of a text with line numbers: plain, or a JSON string.
type spelling struct {
	quote, tab, arrow string
	// lineEnd returns the end of the line that begins at an offset.
	lineEnd func(s string, from int) int
}

var (
	plain  = spelling{"", "\t", "→", lineEnd}
	quoted = spelling{`"`, `\t`, `\u2192`, quotedLineEnd}
)

// quotedLineEnd is [lineEnd] in a JSON string.
func quotedLineEnd(s string, from int) int {
	return rawjson.LineEnd(unsafe.Slice(unsafe.StringData(s), len(s)), from)
}

// numberedLine measures the line number that a tool such as cat -n puts before a line of a file:
// blanks, digits, and an arrow or a tab. Without a number, digits is 0.
func (p *spelling) numberedLine(line string) (pad, digits, separator int) {
	for pad < len(line) && line[pad] == ' ' {
		pad++
	}
	i := pad
	for i < len(line) && line[i] >= '0' && line[i] <= '9' {
		i++
	}
	switch {
	case i == pad || i-pad > 9:
	case strings.HasPrefix(line[i:], p.tab):
		return pad, i - pad, len(p.tab)
	case strings.HasPrefix(line[i:], "→"):
		return pad, i - pad, len("→")
	case strings.HasPrefix(line[i:], p.arrow):
		return pad, i - pad, len(p.arrow)
	}
	return 0, 0, 0
}

// numberedRun measures the run of numbered lines from an offset on. The numbers are consecutive,
// and all padded to one width or all unpadded. It appends the ends of the lines, and returns the
// bytes of padding.
func (p *spelling) numberedRun(ends []int, s string, from int) (lines []int, padding int) {
	before, width, sep := 0, 0, 0
	bare := true // every number so far fits an unpadded run
	for from < len(s) {
		pad, n, separator := p.numberedLine(s[from:])
		if n == 0 {
			break
		}
		number := 0
		for _, c := range s[from+pad : from+pad+n] {
			number = 10*number + int(c-'0')
		}
		if len(ends) > 0 && (number != before+1 || separator != sep) {
			break
		}
		switch {
		case len(ends) == 0:
			width = pad + n
		case pad+n == width:
		case pad == 0 && (padding == 0 && bare || n > width):
		default:
			return ends, padding
		}
		bare = bare && pad == 0
		before, sep = number, separator
		padding += pad
		from = p.lineEnd(s, from)
		ends = append(ends, from)
	}
	return ends, padding
}

// minNumbered is the minimum number of lines for numbers to count as line numbers.
const minNumbered = 5

// numberedRuns calls yield for each run of numbered lines, with the ends of its lines.
func (p *spelling) numberedRuns(s string, yield func(from int, ends []int, padding int)) {
	if !strings.Contains(s, p.tab) && !strings.Contains(s, "→") && !strings.Contains(s, p.arrow) {
		return
	}
	buffer := lineEnds.Get().(*[]int)
	defer lineEnds.Put(buffer)
	for from := 0; from < len(s); {
		ends, padding := p.numberedRun((*buffer)[:0], s, from)
		*buffer = ends
		if len(ends) >= minNumbered {
			yield(from, ends, padding)
		}
		if len(ends) == 0 {
			from = p.lineEnd(s, from)
		} else {
			from = ends[len(ends)-1]
		}
	}
}

// lineEnds has buffers of type *[]int for the ends of lines.
var lineEnds = sync.Pool{New: func() any { return new([]int) }}

// unpadded returns a text without the blanks before line numbers, nil if there are none. The lines
// themselves stay unchanged.
func (p *spelling) unpadded(s string) (out []byte) {
	s = s[len(p.quote) : len(s)-len(p.quote)]
	copied := 0
	p.numberedRuns(s, func(from int, ends []int, padding int) {
		if padding == 0 {
			return
		}
		if out == nil { // exact for one run, see [content.Append]
			out = append(make([]byte, 0, len(s)-padding+2*len(p.quote)), p.quote...)
		}
		out = append(out, s[copied:from]...)
		for _, end := range ends {
			out, from = append(out, strings.TrimLeft(s[from:end], " ")...), end
		}
		copied = from
	})
	if out == nil {
		return nil
	}
	return append(append(out, s[copied:]...), p.quote...)
}

// dropPadding removes the blanks before line numbers.
func dropPadding(s string) string {
	if out := plain.unpadded(s); out != nil {
		return string(out)
	}
	return s
}

// dropEcho replaces the numbered lines of a file by a note if the call itself wrote them.
func dropEcho(s, written string) string {
	if len(written) < minAdmission || len(s) < len(written) {
		return s
	}
	var out strings.Builder
	copied := 0
	plain.numberedRuns(s, func(from int, ends []int, _ int) {
		end := ends[len(ends)-1]
		if !echoes(s[from:end], written) {
			return
		}
		out.WriteString(s[copied:from])
		fmt.Fprintf(&out, "%s%d lines, as written by the call]", Note, len(ends))
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
		pad, n, sep := plain.numberedLine(line)
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
