// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
)

// minStamps is the minimum number of lines with a time in a log.
const minStamps = 20

// dropDates removes date and zone from log lines if they equal those of the previous line with a
// time.
func dropDates(s string) string {
	if len(s) < 20*minStamps || !stamped(s) {
		return s
	}
	var out strings.Builder
	out.Grow(len(s))
	date, zone := "", ""
	for line := range strings.Lines(s) {
		before := leadIn(line)
		n, rest := stamp(line[before:])
		if n == 0 {
			out.WriteString(line)
			continue
		}
		d, tail := line[before:before+n], line[before+n:]
		z, clock := "", tail[:rest]
		if i := strings.IndexAny(clock, "Z+-"); i >= 0 {
			z, clock = clock[i:], clock[:i]
		}
		if d != date || z != zone {
			date, zone = d, z
			out.WriteString(line)
			continue
		}
		out.WriteString(line[:before])
		out.WriteString(clock)
		out.WriteString(tail[rest:])
	}
	return out.String()
}

// stamped reports whether enough lines of a text begin with a date and a time.
func stamped(s string) bool {
	n := 0
	for line := range strings.Lines(s) {
		if date, _ := stamp(line[leadIn(line):]); date > 0 {
			if n++; n == minStamps {
				return true
			}
		}
	}
	return false
}

// leadIn returns the number of blanks and brackets at the start of a line.
func leadIn(line string) int {
	n := 0
	for n < len(line) && (line[n] == ' ' || line[n] == '[') {
		n++
	}
	return n
}

// stamp measures the date and time at the start of a line, as in 2026-11-20T10:11:12.345Z or
// 2026/11/20 10:11:12. It returns the length of the date with its separator, and the length of the
// time with fraction and zone. Both are 0 without a date.
func stamp(line string) (date, clock int) {
	const dateLen, clockLen = 11, 8
	if len(line) < dateLen+clockLen || line[0] < '0' || line[0] > '9' {
		return 0, 0
	}
	if !content.Digits(line[:4]) || !content.Digits(line[5:7]) || !content.Digits(line[8:10]) || line[4] != line[7] || (line[4] != '-' && line[4] != '/') ||
		(line[10] != 'T' && line[10] != ' ') {
		return 0, 0
	}
	t := line[dateLen:]
	if t[2] != ':' || t[5] != ':' || !content.Digits(t[:2]) || !content.Digits(t[3:5]) || !content.Digits(t[6:8]) {
		return 0, 0
	}
	i := clockLen
	if i+1 < len(t) && (t[i] == '.' || t[i] == ',') && content.Digits(t[i+1:i+2]) {
		for i++; i < len(t) && content.Digits(t[i:i+1]); i++ {
		}
	}
	switch {
	case i < len(t) && t[i] == 'Z':
		i++
	case i+6 <= len(t) && (t[i] == '+' || t[i] == '-') && t[i+3] == ':' && content.Digits(t[i+1:i+3]) && content.Digits(t[i+4:i+6]):
		i += 6
	case i+5 <= len(t) && (t[i] == '+' || t[i] == '-') && content.Digits(t[i+1:i+5]):
		i += 5
	}
	if i < len(t) && t[i] != ' ' && t[i] != ']' && t[i] != '\t' && t[i] != ':' && t[i] != '\n' {
		return 0, 0
	}
	return dateLen, i
}
