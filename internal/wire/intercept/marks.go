// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Marks are the texts that replace removed content in a prompt. A model that copies a mark into a
// call has mistaken it for the content.
type Marks struct {
	sorted []string // plain texts that start with a bracket
}

// NewMarks returns the marks of a prompt. Texts without a leading bracket are ignored.
func NewMarks(texts []string) *Marks {
	m := &Marks{}
	for _, t := range texts {
		if t = Plain(t); strings.HasPrefix(t, "[") {
			m.sorted = append(m.sorted, t)
		}
	}
	slices.Sort(m.sorted)
	m.sorted = slices.Compact(m.sorted)
	return m
}

// In returns the first mark in a text, "" for none. The text may be escaped, see [Plain].
func (m *Marks) In(text string) string {
	s := scanner{marks: m}
	s.feed(text, 0)
	return s.found
}

// Plain normalizes a text for comparing marks: it removes backslashes and decodes \u escapes. A
// mark then reads the same in JSON, in JSON within a string, and in a program within a string.
func Plain(text string) string {
	if strings.IndexByte(text, '\\') < 0 {
		return text
	}
	var out []byte
	var e escapes
	for i := range len(text) {
		out = e.next(out, text[i])
	}
	return string(out)
}

// escapes decodes a possibly escaped text byte by byte.
type escapes struct {
	slash  bool   // after a backslash
	digits []byte // of a \u escape, including the u
	high   rune   // the first half of a surrogate pair
}

// open reports whether the text ends inside an escape.
func (e *escapes) open() bool { return e.slash || len(e.digits) > 0 || e.high != 0 }

func (e *escapes) next(dst []byte, c byte) []byte {
	switch {
	case len(e.digits) > 0 && !isHex(c):
		dst = append(dst, e.digits...) // not an escape
		e.digits = e.digits[:0]
		return e.next(dst, c)
	case len(e.digits) == len("u005"):
		r := rune(0)
		for _, d := range append(e.digits[1:], c) {
			r = r<<4 | hex(d)
		}
		e.digits = e.digits[:0]
		return e.char(dst, r)
	case len(e.digits) > 0:
		e.digits = append(e.digits, c)
		return dst
	case c == '\\':
		e.slash = true
		return dst
	case e.slash && c == 'u':
		e.slash, e.digits = false, append(e.digits, c)
		return dst
	}
	e.slash, e.high = false, 0
	return append(dst, c)
}

func (e *escapes) char(dst []byte, r rune) []byte {
	high := e.high
	e.high = 0
	switch {
	case high != 0 && utf16.DecodeRune(high, r) != utf8.RuneError:
		r = utf16.DecodeRune(high, r)
	case r >= 0xd800 && r < 0xdc00:
		e.high = r
		return dst
	}
	return utf8.AppendRune(dst, r)
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f' }

func hex(c byte) rune {
	if c <= '9' {
		return rune(c - '0')
	}
	return rune(c|0x20-'a') + 10
}

// scanner searches for marks in a text that arrives in pieces of any size.
type scanner struct {
	marks *Marks
	found string // the first mark
	some  bool   // any text was read
	read  escapes
	tail  []byte  // plain text that may begin a mark
	from  []int64 // the position of the piece for each byte of tail
	begin int64   // the position of the piece where an open escape began
	plain []byte
}

// feed scans a piece at a position, and reports whether a mark was found.
func (s *scanner) feed(piece string, at int64) bool {
	s.some = s.some || piece != ""
	for i := 0; i < len(piece) && s.found == ""; i++ {
		if len(s.tail) == 0 && !s.read.open() {
			// Outside of a possible mark only brackets and escapes matter.
			next := strings.IndexAny(piece[i:], `[\`)
			if next < 0 {
				break
			}
			i += next
		}
		if !s.read.open() {
			s.begin = at
		}
		begin := s.begin
		s.plain = s.read.next(s.plain[:0], piece[i])
		for _, c := range s.plain {
			s.add(c, begin)
		}
		if s.read.slash && len(s.plain) > 0 {
			s.begin = at
		}
	}
	return s.found != ""
}

// add adds a byte to the tail and removes leading bytes that cannot begin a mark.
func (s *scanner) add(c byte, at int64) {
	if s.found != "" {
		return
	}
	s.tail, s.from = append(s.tail, c), append(s.from, at)
	read := rawjson.View(s.tail)
	i, whole := slices.BinarySearch(s.marks.sorted, read)
	switch {
	case whole:
		s.found = s.marks.sorted[i]
		return
	case i < len(s.marks.sorted) && strings.HasPrefix(s.marks.sorted[i], read):
		// If any mark starts with the tail, the mark at i does.
		return
	}
	// A mark may still begin at a later bracket of the tail.
	tail, from := s.tail, s.from
	s.tail, s.from = nil, nil
	for n := 1; n < len(tail); n++ {
		if len(s.tail) > 0 || tail[n] == '[' {
			s.add(tail[n], from[n])
		}
	}
}

// pending reports whether the text ends with a possible mark.
func (s *scanner) pending() bool { return len(s.tail) > 0 || s.read.open() }

// waits returns the position of the piece where a possible mark begins, and false for none.
func (s *scanner) waits() (at int64, ok bool) {
	// Trailing brackets do not count, because pieces of code often end with them.
	if strings.Trim(rawjson.View(s.tail), "[") == "" {
		return 0, false
	}
	return s.from[0], true
}

func (s *scanner) move(at int64) {
	s.begin = at
	for i := range s.from {
		s.from[i] = at
	}
}
