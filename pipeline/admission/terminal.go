// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"strings"
	"unicode/utf8"
)

const escape = '\x1b'

// stripEscapes removes terminal escape sequences (ECMA-48): colours, cursor movements, titles,
// links. The text of a link stays.
func stripEscapes(s string) string {
	i := strings.IndexByte(s, escape)
	if i < 0 {
		return s
	}
	var out strings.Builder
	out.Grow(len(s))
	for i >= 0 {
		out.WriteString(s[:i])
		s = s[i+sequence(s[i:]):]
		i = strings.IndexByte(s, escape)
	}
	out.WriteString(s)
	return out.String()
}

// sequence returns the length of the escape sequence at the start of a text, 1 for a lone escape
// character.
func sequence(s string) int {
	const longest = 4096
	if len(s) < 2 {
		return 1
	}
	s = s[:min(len(s), longest)]
	switch s[1] {
	case '[': // parameters, intermediates, one final byte
		i := 2
		for i < len(s) && s[i] >= 0x20 && s[i] <= 0x3f {
			i++
		}
		if i < len(s) && s[i] >= 0x40 && s[i] <= 0x7e {
			return i + 1
		}
	case ']', 'P', 'X', '^', '_': // a string up to BEL or ESC \
		for i := 2; i < len(s) && s[i] != '\n'; i++ {
			if s[i] == '\a' {
				return i + 1
			}
			if s[i] == escape {
				if i+1 < len(s) && s[i+1] == '\\' {
					return i + 2
				}
				break
			}
		}
	default:
		i := 1
		for i < len(s) && s[i] >= 0x20 && s[i] <= 0x2f {
			i++
		}
		if i < len(s) && s[i] >= 0x30 && s[i] <= 0x7e {
			return i + 1
		}
	}
	return 1
}

// keepLastState keeps the final state of lines that were redrawn with carriage returns, and applies
// backspaces.
func keepLastState(s string) string {
	if !strings.ContainsAny(s, "\r\b") {
		return s
	}
	var out strings.Builder
	out.Grow(len(s))
	var states []string // of a line, none of which replaces the one before
	for line := range strings.Lines(s) {
		if strings.IndexByte(line, '\b') >= 0 {
			line = eraseBack(line)
		}
		text := chomp(line)
		end := line[len(text):]
		states = states[:0]
		for state := range strings.SplitSeq(text, "\r") {
			// A carriage return replaces the earlier text only if the new text looks like it.
			for len(states) > 0 && redraws(states[len(states)-1], state) {
				states = states[:len(states)-1]
			}
			states = append(states, state)
		}
		for i, state := range states {
			if i > 0 {
				out.WriteByte('\r')
			}
			out.WriteString(state)
		}
		out.WriteString(end)
	}
	return out.String()
}

func eraseBack(line string) string {
	out := make([]byte, 0, len(line))
	for i := range len(line) {
		if line[i] != '\b' {
			out = append(out, line[i])
			continue
		}
		_, n := utf8.DecodeLastRune(out)
		out = out[:len(out)-n]
	}
	return string(out)
}

// redraws reports whether a newer state of a line replaces an older one: both begin with the same
// word, the older one has no word, or the newer one is blank.
func redraws(older, newer string) bool {
	a, b := firstWord(older), firstWord(newer)
	return a == b || a == "" || strings.TrimSpace(newer) == ""
}

// firstWord returns the first run of three or more letters.
func firstWord(s string) string {
	from := -1
	for i := 0; i <= len(s); i++ {
		letter := i < len(s) && (s[i]|0x20 >= 'a' && s[i]|0x20 <= 'z')
		switch {
		case letter && from < 0:
			from = i
		case !letter && from >= 0 && i-from >= 3:
			return s[from:i]
		case !letter:
			from = -1
		}
	}
	return ""
}
