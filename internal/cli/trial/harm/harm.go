// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package harm finds the edits of files that quote what the model was not shown.
package harm

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Done reports whether an edit quotes text that the client's request held and
// the request that the upstream was shown did not. Both are given as texts
// returns them.
func Done(lines []string, history, shown []byte) bool {
	for _, line := range lines {
		if l := []byte(line); !bytes.Contains(shown, l) && bytes.Contains(history, l) {
			return true
		}
	}
	return false
}

// Texts returns what a body says: all its strings but the keys, decoded, each
// with a newline behind. The strings in the arguments of a tool call of chat
// completions, which are JSON in a string, are decoded once more.
func Texts(body []byte) []byte { return AppendTexts(make([]byte, 0, len(body)), body) }

// AppendTexts is Texts that appends.
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

// closing returns the index of the quote that ends a string.
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

// decode appends the meaning of the inside of a JSON string.
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

// unicodeEscape reads what follows \u, a second half of a pair included, and
// returns how many bytes it took.
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
	if len(s) >= 10 && s[4] == '\\' && s[5] == 'u' {
		if pair := utf16.DecodeRune(r, unit(s[6:])); pair != utf8.RuneError {
			return pair, 10
		}
	}
	return utf8.RuneError, 4
}
