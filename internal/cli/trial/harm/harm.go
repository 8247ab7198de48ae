// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package harm finds the edits of files that quote text the model was not shown.
package harm

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Done reports whether an edit quotes text of the client's request that the upstream was not shown.
// history and shown are the results of Texts for both requests.
func Done(lines []string, history, shown []byte) bool {
	for _, line := range lines {
		if l := []byte(line); !bytes.Contains(shown, l) && bytes.Contains(history, l) {
			return true
		}
	}
	return false
}

// Texts returns all decoded strings of a body except keys, each followed by a newline. The
// arguments of tool calls in chat completions, which are JSON in a string, are decoded twice.
func Texts(body []byte) []byte { return AppendTexts(make([]byte, 0, len(body)), body) }

// AppendTexts appends the result of Texts.
func AppendTexts(dst, b []byte) []byte {
	arguments := false
	for {
		i := bytes.IndexByte(b, '"')
		if i < 0 {
			return dst
		}
		b = b[i+1:]
		end := closing(b)
		s := b[:end]
		b = b[min(end+1, len(b)):]
		switch {
		case bytes.HasPrefix(bytes.TrimLeft(b, " \t\r\n"), []byte(":")):
			arguments = string(s) == "arguments"
			continue
		case arguments:
			dst = AppendTexts(dst, decode(nil, s))
		default:
			dst = append(decode(dst, s), '\n')
		}
		arguments = false
	}
}

func closing(b []byte) int {
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(b)
}

func decode(dst, s []byte) []byte {
	for {
		i := bytes.IndexByte(s, '\\')
		if i < 0 || i+1 >= len(s) {
			return append(dst, s...)
		}
		dst = append(dst, s[:i]...)
		c := s[i+1]
		s = s[i+2:]
		switch c {
		case 'n':
			dst = append(dst, '\n')
		case 't':
			dst = append(dst, '\t')
		case 'r':
			dst = append(dst, '\r')
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'u':
			r, n := unicodeEscape(s)
			dst, s = utf8.AppendRune(dst, r), s[n:]
		default:
			dst = append(dst, c)
		}
	}
}

// unicodeEscape decodes an escape after \u, and returns its length in bytes.
func unicodeEscape(s []byte) (rune, int) {
	unit := func(s []byte) rune {
		if len(s) < 4 {
			return utf8.RuneError
		}
		v, err := strconv.ParseUint(string(s[:4]), 16, 16)
		if err != nil {
			return utf8.RuneError
		}
		return rune(v)
	}
	r := unit(s)
	if !utf16.IsSurrogate(r) {
		return r, min(4, len(s))
	}
	// The second half of a surrogate pair is an escape of its own.
	if len(s) >= 10 && s[4] == '\\' && s[5] == 'u' {
		if pair := utf16.DecodeRune(r, unit(s[6:])); pair != utf8.RuneError {
			return pair, 10
		}
	}
	return utf8.RuneError, 4
}
