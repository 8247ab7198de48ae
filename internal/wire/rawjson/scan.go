// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strings"
	"unsafe"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
)

// MaxDepth bounds the nesting of JSON that is read, in requests, in answers and
// in the strings of both that hold JSON again. Clients' tool inputs and schemas
// stay far below; what is deeper passes through unread.
const MaxDepth = framing.MaxDepth

// Valid reports whether text is one well-formed JSON value, white space around it
// allowed, that is nested no deeper than 512 levels. It neither recurses nor
// allocates, whatever the text: a stack that overflows takes the process with
// it, and no recover holds it.
func Valid(text string) bool {
	return ValidBytes(unsafe.Slice(unsafe.StringData(text), len(text)))
}

// ValidBytes is [Valid] for bytes.
func ValidBytes(b []byte) bool {
	i := scan(b, 0, checkString)
	return i >= 0 && SkipSpace(b, i) == len(b)
}

// ValidObject is [Valid] for a text that is to be an object.
func ValidObject(text string) bool {
	return strings.HasPrefix(strings.TrimLeft(text, " \n\t\r"), "{") && Valid(text)
}

// The functions below walk JSON text without recursion and without allocating.
// They take an index and return the index behind what they read, or -1 if the
// text is not well formed there. Escapes inside strings are validated by Valid
// only: strings of a request are never taken apart, only skipped or copied whole.

// SkipSpace returns the index behind the white space that stands at an index.
func SkipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// SkipString skips the string that begins with the quote at b[i].
func SkipString(b []byte, i int) int {
	if i < 0 || i >= len(b) || b[i] != '"' {
		return -1
	}
	start := i + 1
	for i = start; i < len(b); {
		q := bytes.IndexByte(b[i:], '"')
		if q < 0 {
			return -1
		}
		i += q
		escaped := false
		for j := i - 1; j >= start && b[j] == '\\'; j-- {
			escaped = !escaped
		}
		i++
		if !escaped {
			return i
		}
		// Where one quote is escaped, the next one is near.
		for near := min(i+nearby, len(b)); i < near; i++ {
			switch b[i] {
			case '"':
				return i + 1
			case '\\':
				i++
			}
		}
	}
	return -1
}

// nearby is how far a quote is looked for one byte after the other.
const nearby = 64

// checkString is [SkipString] for a string that holds no control characters and
// no escapes but those of JSON.
func checkString(b []byte, i int) int {
	if i < 0 || i >= len(b) || b[i] != '"' {
		return -1
	}
	for i = plain(b, i+1); i < len(b); i = plain(b, i+1) {
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return -1
		case c == '\\':
			if i++; i >= len(b) {
				return -1
			}
			switch b[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				for range 4 {
					if i++; i >= len(b) || !isHex(b[i]) {
						return -1
					}
				}
			default:
				return -1
			}
		}
	}
	return -1
}

// plain returns the index behind the bytes at an index that stand for themselves in a
// string: the first quote, backslash or control character, or the end. A byte less what it
// is looked for borrows from the next only where it is found, so that the first of those
// in a word is never wrong.
func plain(b []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for len(b)-i >= 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, backslash := w^ones*'"', w^ones*'\\'
		if found := ((quote-ones)&^quote | (backslash-ones)&^backslash | (w-ones*' ')&^w) & highs; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
		i += 8
	}
	for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// skipKey skips a member's key and colon.
func skipKey(b []byte, i int, str func([]byte, int) int) int {
	i = str(b, SkipSpace(b, i))
	if i < 0 {
		return -1
	}
	i = SkipSpace(b, i)
	if i >= len(b) || b[i] != ':' {
		return -1
	}
	return i + 1
}

// SkipWord skips a word that is to stand at an index, and returns -1 if it does not.
func SkipWord(b []byte, i int, word string) int {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

// SkipDigits returns the index behind the digits that stand at an index.
func SkipDigits(b []byte, i int) int {
	for len(b)-i >= 8 && digits(binary.LittleEndian.Uint64(b[i:])) {
		i += 8
	}
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	return i
}

// digits reports whether all eight bytes of a word are digits: none leaves 0x30 to 0x3f,
// and with six added none reaches 0x40.
func digits(w uint64) bool {
	const nibbles, zeros, six = 0xf0f0f0f0f0f0f0f0, 0x3030303030303030, 0x0606060606060606
	return w&nibbles == zeros && (w+six)&nibbles == zeros
}

// skipDigits is [SkipDigits] where at least one digit has to stand, and -1 without.
func skipDigits(b []byte, i int) int {
	if end := SkipDigits(b, i); end > i {
		return end
	}
	return -1
}

func skipNumber(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if i = skipDigits(b, i); i < 0 {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		if i = skipDigits(b, i+1); i < 0 {
			return -1
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return skipDigits(b, i)
	}
	return i
}

// SkipValue skips one JSON value of any kind, white space before it included.
func SkipValue(b []byte, i int) int { return scan(b, i, SkipString) }

// scan skips one JSON value whose strings are skipped by str.
func scan(b []byte, i int, str func([]byte, int) int) int {
	var objects [MaxDepth / 64]uint64 // one bit per open container: is it an object
	depth := 0
	push := func(object bool) {
		if object {
			objects[depth/64] |= 1 << (depth % 64)
		} else {
			objects[depth/64] &^= 1 << (depth % 64)
		}
		depth++
	}
	for {
		i = SkipSpace(b, i)
		if i >= len(b) {
			return -1
		}
		switch c := b[i]; c {
		case '"':
			i = str(b, i)
		case '{', '[':
			if depth == MaxDepth {
				return -1
			}
			i = SkipSpace(b, i+1)
			if i < len(b) && b[i] == c+2 { // '}' is '{'+2, ']' is '['+2
				i++
				break
			}
			push(c == '{')
			if c == '{' {
				if i = skipKey(b, i, str); i < 0 {
					return -1
				}
			}
			continue
		case 't':
			i = SkipWord(b, i, "true")
		case 'f':
			i = SkipWord(b, i, "false")
		case 'n':
			i = SkipWord(b, i, "null")
		case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			i = skipNumber(b, i)
		default:
			return -1
		}
		// A value has ended: close containers until another value must follow.
		for next := false; !next; {
			if i < 0 || depth == 0 {
				return i
			}
			i = SkipSpace(b, i)
			if i >= len(b) {
				return -1
			}
			object := objects[(depth-1)/64]&(1<<((depth-1)%64)) != 0
			switch {
			case b[i] == ',' && object:
				if i = skipKey(b, i+1, str); i < 0 {
					return -1
				}
				next = true
			case b[i] == ',':
				i++
				next = true
			case b[i] == '}' && object, b[i] == ']' && !object:
				i++
				depth--
			default:
				return -1
			}
		}
	}
}

// Members walks the members of an object. After next returns true, key is the
// key's text and at the index of the value, which the caller must skip by
// setting at to the index behind it.
type Members struct {
	body []byte
	Key  []byte
	From int // where the key's quote stands
	At   int
	open bool // the first member was seen
	Bad  bool
	End  int // behind the closing brace, once next returned false
}

// Walk begins at the object's brace, white space before it allowed.
func Walk(b []byte, i int) Members {
	i = SkipSpace(b, i)
	if i >= len(b) || b[i] != '{' {
		return Members{Bad: true}
	}
	return Members{body: b, At: i + 1}
}

// Next goes to the next member, and reports whether there is one.
func (m *Members) Next() bool {
	if m.Bad || m.At < 0 {
		m.Bad = true
		return false
	}
	i := SkipSpace(m.body, m.At)
	if i >= len(m.body) {
		m.Bad = true
		return false
	}
	switch {
	case m.body[i] == '}':
		m.End = i + 1
		return false
	case m.open && m.body[i] == ',':
		i = SkipSpace(m.body, i+1)
	case m.open:
		m.Bad = true
		return false
	}
	m.open = true
	end := SkipString(m.body, i)
	if end < 0 {
		m.Bad = true
		return false
	}
	colon := SkipSpace(m.body, end)
	if colon >= len(m.body) || m.body[colon] != ':' {
		m.Bad = true
		return false
	}
	m.From, m.Key = i, m.body[i+1:end-1]
	m.At = SkipSpace(m.body, colon+1)
	// An escaped key could spell a name that we act on in another way.
	if bytes.IndexByte(m.Key, '\\') >= 0 || m.At >= len(m.body) {
		m.Bad = true
		return false
	}
	return true
}

// Skip moves over the value at m.at and returns its span.
func (m *Members) Skip() Span {
	start := m.At
	m.At = SkipValue(m.body, start)
	if m.At < 0 {
		m.Bad = true
		return Span{}
	}
	return Span{int32(start), int32(m.At)}
}

// Elements walks the elements of an array: after next returns true, at is the
// index of an element, which the caller must skip by setting at behind it.
type Elements struct {
	b    []byte
	At   int
	open bool
	Bad  bool
	End  int
	Most *int // how many more may be read, nil for any number
}

// List begins at the bracket of an array, white space before it allowed.
func List(b []byte, i int) Elements {
	i = SkipSpace(b, i)
	if i >= len(b) || b[i] != '[' {
		return Elements{Bad: true}
	}
	return Elements{b: b, At: i + 1}
}

// Next goes to the next element, and reports whether there is one.
func (e *Elements) Next() bool {
	if e.Bad || e.At < 0 {
		e.Bad = true
		return false
	}
	i := SkipSpace(e.b, e.At)
	if i >= len(e.b) {
		e.Bad = true
		return false
	}
	switch {
	case e.b[i] == ']':
		e.End = i + 1
		return false
	case e.open && e.b[i] == ',':
		i = SkipSpace(e.b, i+1)
	case e.open:
		e.Bad = true
		return false
	}
	if e.Most != nil {
		if *e.Most--; *e.Most < 0 {
			e.Bad = true
			return false
		}
	}
	e.open = true
	e.At = i
	if i >= len(e.b) || e.b[i] == ']' {
		e.Bad = true
		return false
	}
	return true
}

// Unquoted returns the span inside the quotes of a string value, or an empty
// one if the value is not a string.
func Unquoted(b []byte, s Span) Span {
	if s.Len() < 2 || b[s.Start] != '"' {
		return Span{}
	}
	return Span{s.Start + 1, s.End - 1}
}
