// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package cl100k counts tokens of OpenAI's cl100k_base encoding, by which LLMLingua-2 weighs the
// words of a text.
package cl100k

import (
	"bytes"
	"compress/flate"
	_ "embed"
	"io"
	"sync"
	"unicode"
	"unicode/utf8"
)

// The encoding as deflated merges, see testdata/oracle/cl100k.cjs of package lingua. From OpenAI's
// tiktoken (MIT).
//
//go:embed merges.bin
var packed []byte

var ranks = sync.OnceValue(func() map[string]int32 {
	raw, err := io.ReadAll(flate.NewReader(bytes.NewReader(packed)))
	if err != nil {
		panic("cl100k: " + err.Error())
	}
	const single = 256 // tokens of one byte
	n := (len(raw) - single) / 6
	tokens := make([]string, 0, single+n)
	for _, b := range raw[:single] {
		tokens = append(tokens, string([]byte{b}))
	}
	planes := raw[single:]
	for i := range n {
		half := func(side int) string {
			at := side*n + i
			return tokens[int(planes[at])|int(planes[at+2*n])<<8|int(planes[at+4*n])<<16]
		}
		tokens = append(tokens, half(0)+half(1))
	}
	m := make(map[string]int32, len(tokens))
	for rank, t := range tokens {
		m[t] = int32(rank)
	}
	return m
})

// Count returns the number of tokens of a text. Names of special tokens count as text.
func Count(s string) int {
	n := 0
	for len(s) > 0 {
		end := piece(s)
		n += merge(s[:end])
		s = s[end:]
	}
	return n
}

// piece returns the length of the first piece of s, as cl100k's regular expression splits. A piece
// is a contraction; a word with one rune before it; up to three digits; signs with a space before
// and line ends after; or white space.
func piece(s string) int {
	if n := contraction(s); n > 0 {
		return n
	}
	r, n := utf8.DecodeRuneInString(s)
	if unicode.IsLetter(r) {
		return letters(s, n)
	}
	if r != '\r' && r != '\n' && !unicode.IsNumber(r) {
		if next, m := utf8.DecodeRuneInString(s[n:]); unicode.IsLetter(next) {
			return letters(s, n+m)
		}
	}
	if unicode.IsNumber(r) {
		for range 2 {
			next, m := utf8.DecodeRuneInString(s[n:])
			if !unicode.IsNumber(next) {
				break
			}
			n += m
		}
		return n
	}
	if m := signs(s); m > 0 {
		return m
	}
	return spaces(s)
}

func contraction(s string) int {
	if len(s) < 2 || s[0] != '\'' {
		return 0
	}
	switch s[1] | 0x20 {
	case 's', 't', 'm', 'd':
		return 2
	}
	if len(s) < 3 {
		return 0
	}
	switch string([]byte{s[1] | 0x20, s[2] | 0x20}) {
	case "re", "ve", "ll":
		return 3
	}
	return 0
}

func letters(s string, n int) int {
	for {
		r, m := utf8.DecodeRuneInString(s[n:])
		if !unicode.IsLetter(r) {
			return n
		}
		n += m
	}
}

// sign reports whether r is neither space, letter nor number. Invalid UTF-8 counts as signs.
func sign(r rune) bool {
	return !space(r) && !unicode.IsLetter(r) && !unicode.IsNumber(r)
}

// space is \s of Rust's regular expressions, as in tiktoken. JavaScript's \s differs in U+0085 and U+FEFF.
func space(r rune) bool { return unicode.Is(unicode.White_Space, r) }

func signs(s string) int {
	n := 0
	if s[0] == ' ' {
		n = 1
	}
	found := false
	for n < len(s) {
		r, m := utf8.DecodeRuneInString(s[n:])
		if !sign(r) {
			break
		}
		found, n = true, n+m
	}
	if !found {
		return 0
	}
	for n < len(s) && (s[n] == '\r' || s[n] == '\n') {
		n++
	}
	return n
}

// spaces returns the length of a run of white space up to its last line end. Without a line end,
// the last rune is left to the next piece.
func spaces(s string) int {
	n, last, line := 0, 0, 0
	for n < len(s) {
		r, m := utf8.DecodeRuneInString(s[n:])
		if !space(r) {
			break
		}
		last = n
		n += m
		if r == '\r' || r == '\n' {
			line = n
		}
	}
	if line > 0 {
		return line
	}
	if n < len(s) && last > 0 {
		return last
	}
	return n
}

// merge returns the number of tokens of a piece by byte pair encoding. It merges the neighbours of
// the lowest rank until no two neighbours have a rank.
func merge(s string) int {
	m := ranks()
	if _, ok := m[s]; ok {
		return 1
	}
	if len(s) > maxPiece {
		return merge(s[:maxPiece]) + merge(s[maxPiece:])
	}
	starts := make([]int, len(s)+1)
	for i := range starts {
		starts[i] = i
	}
	for len(starts) > 2 {
		best, at := int32(len(m)), -1
		for i := range len(starts) - 2 {
			if r, ok := m[s[starts[i]:starts[i+2]]]; ok && r < best {
				best, at = r, i
			}
		}
		if at < 0 {
			break
		}
		starts = append(starts[:at+1], starts[at+2:]...)
	}
	return len(starts) - 1
}

// maxPiece bounds the work on a piece, which grows with the square of its length. Longer pieces are
// counted in parts, and each cut may add a token.
const maxPiece = 4096
