// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// minBlob is the minimum length of a cut run of base64 or hexadecimal. Keys and tokens that an
	// agent may have to copy are shorter.
	minBlob  = 1000
	blobHead = 64

	longLine                   = 8000
	longLineHead, longLineTail = 5000, 1000
	longHit                    = 1000
	longHitHead, longHitTail   = 400, 100

	// longOutput is the maximum length in bytes of an uncut output. A cut output is shorter, so it
	// is not cut again.
	longOutput                     = 16000
	longOutputHead, longOutputTail = 4000, 7000
	longOutputAlarms               = 3000
	longOutputLine                 = 400
)

// cutBlobs cuts long runs of base64 or hexadecimal digits to their beginning.
func cutBlobs(s string) string {
	if len(s) < minBlob {
		return s
	}
	var out strings.Builder
	copied := 0
	for at := minBlob - 1; at < len(s); at += minBlob { // every long run contains one of these positions
		if !encoded(s[at]) {
			continue
		}
		from, end := at, at+1
		for from > copied && encoded(s[from-1]) {
			from--
		}
		for end < len(s) && encoded(s[end]) {
			end++
		}
		name := encoding(s[from:end])
		if name == "" {
			at = max(at, end-minBlob)
			continue
		}
		out.WriteString(s[copied : from+blobHead])
		fmt.Fprintf(&out, " %s%d characters of %s left out]", Note, end-from-blobHead, name)
		copied = end
		at = end - 1
	}
	if copied == 0 {
		return s
	}
	out.WriteString(s[copied:])
	return out.String()
}

func encoded(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c == '+' || c == '/' || c == '=' || c == '-' || c == '_'
}

// encoding returns the name of a run's encoding, "" if the run is too short or looks like a word, a
// path, a line or a number.
func encoding(run string) string {
	if len(run) < minBlob {
		return ""
	}
	var digit, lower, upper, other, beyond int
	for i := range len(run) {
		switch c := run[i]; {
		case c >= '0' && c <= '9':
			digit++
		case c >= 'a' && c <= 'f':
			lower++
		case c >= 'g' && c <= 'z':
			lower++
			beyond++
		case c >= 'A' && c <= 'Z':
			upper++
			beyond += int(c-'A') / 6 // letters from G on
		default:
			other++
		}
	}
	switch {
	case beyond == 0 && other == 0 && digit > len(run)/4 && lower+upper > len(run)/8:
		return "hexadecimal"
	case digit > len(run)/32 && lower > len(run)/8 && upper > len(run)/8 && other < len(run)/8:
		return "base64"
	}
	return ""
}

// cutLines cuts very long lines to their head and their tail.
func cutLines(s string, over, head, tail int) string {
	if len(s) <= over {
		return s
	}
	var out strings.Builder
	copied, from := 0, 0
	for from < len(s) {
		end := from + strings.IndexByte(s[from:], '\n')
		if end < from {
			end = len(s)
		}
		if end-from > over {
			a, b := backward(s, from+head), forward(s, end-tail)
			out.WriteString(s[copied:a])
			fmt.Fprintf(&out, " %s%d characters left out] ", Note, utf8.RuneCountInString(s[a:b]))
			copied = b
		}
		from = end + 1
	}
	if copied == 0 {
		return s
	}
	out.WriteString(s[copied:])
	return out.String()
}

// backward and forward return the nearest start of a character.
func backward(s string, i int) int {
	for i > 0 && !utf8.RuneStart(s[i]) {
		i--
	}
	return i
}

func forward(s string, i int) int {
	for i < len(s) && !utf8.RuneStart(s[i]) {
		i++
	}
	return i
}

// cutOutput cuts a long output to its head, its tail, and the lines between that look like errors.
func cutOutput(s string) string {
	if len(s) <= longOutput {
		return s
	}
	from := strings.LastIndexByte(s[:longOutputHead], '\n') + 1
	end := len(s) - longOutputTail
	if i := strings.IndexByte(s[end:], '\n'); i >= 0 {
		end += i + 1
	}
	if from == 0 || end == len(s) {
		return s // very long lines are left to cutLines
	}
	var out strings.Builder
	out.Grow(longOutput)
	out.WriteString(s[:from])
	skipped, left := 0, longOutputAlarms
	note := func() {
		if skipped > 0 {
			fmt.Fprintf(&out, "%s%d lines left out]\n", Note, skipped)
			left -= 40
		}
		skipped = 0
	}
	for line := range strings.Lines(s[from:end]) {
		if len(line) > longOutputLine || len(line) > left || !alarming(line) {
			skipped++
			continue
		}
		note()
		out.WriteString(line)
		left -= len(line)
	}
	if skipped > 0 {
		fmt.Fprintf(&out, "%s%d lines left out; to see them, write the output to a file and search it]\n", Note, skipped)
	}
	out.WriteString(s[end:])
	return out.String()
}
