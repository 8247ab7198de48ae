// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package rawjson scans and builds JSON text. It validates a text, walks it without recursion, and
// keeps the client's bytes: key order, number forms and escapes.
package rawjson

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strings"
	"unsafe"
)

// MaxDepth is the maximum nesting of JSON in requests, in answers and in JSON strings inside both.
// Clients' tool inputs and schemas stay far below. Deeper JSON is forwarded unread.
const MaxDepth = 512

// Span is a range of bytes in a body, from Start to End (exclusive).
type Span struct{ Start, End int32 }

// Empty reports whether the span has no bytes. Absent members have empty spans.
func (s Span) Empty() bool { return s.End <= s.Start }

// Len returns the number of bytes in the span.
func (s Span) Len() int { return int(s.End - s.Start) }

// Of returns the span's bytes of raw, without copying.
func (s Span) Of(raw []byte) []byte { return raw[s.Start:s.End] }

// Shift returns the span moved by this number of bytes. An empty span is not moved.
func (s Span) Shift(by int32) Span {
	if s.Empty() {
		return s
	}
	return Span{s.Start + by, s.End + by}
}

// Valid reports whether text is one well-formed JSON value, with optional white space around it,
// nested at most 512 levels deep. It neither recurses nor allocates.
func Valid(text string) bool {
	return ValidBytes(unsafe.Slice(unsafe.StringData(text), len(text)))
}

// ValidBytes is [Valid] for bytes.
func ValidBytes(b []byte) bool {
	i := scan(b, 0, checkString)
	return i >= 0 && SkipSpace(b, i) == len(b)
}

// ValidObject is [Valid] for a JSON object.
func ValidObject(text string) bool {
	return strings.HasPrefix(strings.TrimLeft(text, " \n\t\r"), "{") && Valid(text)
}

// The functions below walk JSON text without recursion and without allocating. They take an index
// and return the index after the value, or -1 if the text is not well-formed there. Only Valid
// validates escapes inside strings: the strings of a request are never decoded, only skipped or
// copied.

// SkipSpace returns the index after the white space at i.
func SkipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// SkipString skips the string with its opening quote at b[i].
func SkipString(b []byte, i int) int {
	if i < 0 || i >= len(b) || b[i] != '"' {
		return -1
	}
	start := i + 1
	for i = start; ; i++ {
		if i = quote(b, i); i < 0 {
			return -1
		}
		escaped := false
		for j := i - 1; j >= start && b[j] == '\\'; j-- {
			escaped = !escaped
		}
		if !escaped {
			return i + 1
		}
	}
}

// nearby is the number of bytes searched as words. Keys are short, and after an escaped quote the next
// quote is often near.
const nearby = 16

// quote returns the index of the first quote in b[i:], -1 for none.
func quote(b []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for near := min(i+nearby, len(b)-7); i < near; i += 8 {
		x := binary.LittleEndian.Uint64(b[i:]) ^ ones*'"'
		if found := (x - ones) &^ x & highs; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	q := bytes.IndexByte(b[min(i, len(b)):], '"')
	if q < 0 {
		return -1
	}
	return i + q
}

// checkString is [SkipString] that also rejects control characters and invalid escapes.
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

// plain returns the index of the first quote, backslash or control character in b[i:], or len(b).
func plain(b []byte, i int) int {
	// Eight bytes at a time. A byte minus the searched value only borrows from the next byte in
	// case of a match, so the first match in a word is exact.
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

// SkipWord skips the given word at i. It returns -1 if the text differs.
func SkipWord(b []byte, i int, word string) int {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

// SkipDigits returns the index after the digits at i.
func SkipDigits(b []byte, i int) int {
	// Eight bytes at a time. A digit has the high nibble 3, also after adding six.
	const nibbles, zeros, six = 0xf0f0f0f0f0f0f0f0, 0x3030303030303030, 0x0606060606060606
	for len(b)-i >= 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		if w&nibbles != zeros || (w+six)&nibbles != zeros {
			break
		}
		i += 8
	}
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	return i
}

// skipNumber skips a number. Its integer, fraction and exponent have at least one digit each.
func skipNumber(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	from := i
	if i < len(b) && b[i] == '0' { // no digits may follow
		i++
	} else if i = SkipDigits(b, from); i == from {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		from = i + 1
		if i = SkipDigits(b, from); i == from {
			return -1
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		from = i
		if i = SkipDigits(b, from); i == from {
			return -1
		}
	}
	return i
}

// SkipValue skips one JSON value of any kind, including white space before it.
func SkipValue(b []byte, i int) int { return scan(b, i, SkipString) }

// scan skips one JSON value. str skips its strings.
func scan(b []byte, i int, str func([]byte, int) int) int {
	// A bit set replaces recursion: a stack overflow cannot be recovered and would end the process.
	var objects [MaxDepth / 64]uint64 // one bit for each open container: set for an object
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

// Members walks the members of an object. After Next returns true, Key is the member's key and At
// the index of its value. The caller must skip the value by setting At to the index after it.
type Members struct {
	body []byte
	Key  []byte
	From int // index of the key's quote
	At   int
	open bool // the first member was read
	Bad  bool
	End  int // index after the closing brace, once Next returned false
}

// Walk starts at the object's brace, after optional white space.
func Walk(b []byte, i int) Members {
	i = SkipSpace(b, i)
	if i >= len(b) || b[i] != '{' {
		return Members{Bad: true}
	}
	return Members{body: b, At: i + 1}
}

// Next moves to the next member, and reports whether there is one.
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
	// An escaped key could be another spelling of a known name.
	if bytes.IndexByte(m.Key, '\\') >= 0 || m.At >= len(m.body) {
		m.Bad = true
		return false
	}
	return true
}

// Skip skips the value at At and returns its span.
func (m *Members) Skip() Span {
	start := m.At
	m.At = SkipValue(m.body, start)
	if m.At < 0 {
		m.Bad = true
		return Span{}
	}
	return Span{int32(start), int32(m.At)}
}

// Elements walks the elements of an array. After Next returns true, At is the index of an element.
// The caller must skip it by setting At to the index after it.
type Elements struct {
	b    []byte
	At   int
	open bool
	Bad  bool
	End  int
	Max  *int // number of further elements allowed, nil for no limit
}

// List starts at the bracket of an array, after optional white space.
func List(b []byte, i int) Elements {
	i = SkipSpace(b, i)
	if i >= len(b) || b[i] != '[' {
		return Elements{Bad: true}
	}
	return Elements{b: b, At: i + 1}
}

// Next moves to the next element, and reports whether there is one.
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
	if e.Max != nil {
		if *e.Max--; *e.Max < 0 {
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

// Unquoted returns the span inside the quotes of a string value, or an empty span for other values.
func Unquoted(b []byte, s Span) Span {
	if s.Len() < 2 || b[s.Start] != '"' {
		return Span{}
	}
	return Span{s.Start + 1, s.End - 1}
}

// Nesting tracks the nesting of a JSON text that arrives in pieces.
type Nesting struct {
	depth             int
	inString, escaped bool
}

// Next reads p and returns the index after the byte that closes the outermost value, -1 if p does
// not contain it. It returns false beyond [MaxDepth].
func (n *Nesting) Next(p []byte) (int, bool) {
	for i := 0; i < len(p); i++ {
		if n.escaped {
			n.escaped = false
			continue
		}
		if n.inString {
			for i < len(p) && p[i] != '"' && p[i] != '\\' {
				i++
			}
			if i < len(p) {
				n.escaped = p[i] == '\\'
				n.inString = n.escaped
			}
			continue
		}
		switch p[i] {
		case '"':
			n.inString = true
		case '{', '[':
			if n.depth++; n.depth > MaxDepth {
				return -1, false
			}
		case '}', ']':
			if n.depth--; n.depth <= 0 {
				return i + 1, true
			}
		}
	}
	return -1, true
}

// MaxValues is the maximum number of JSON values in a body. The longest recorded conversation has
// some ten thousand, and a context of a million tokens has fewer than the limit. Each value costs
// about 100 ns in every search for a member.
const MaxValues = 1 << 20

// Crowded reports whether a body may have more than [MaxValues] values, by the count of [Values].
func Crowded(body []byte) bool { return Exceeds(body, MaxValues) }

// Values returns an upper bound on the number of values in a part of a body: its commas and opening
// brackets. Strings are included, because inputs and results are JSON in strings and get parsed. A
// text with too many commas would exceed any context anyway.
func Values(part []byte) (n int) {
	for len(part) > 0 {
		step := part[:min(countStep, len(part))]
		for i := range separators {
			n += bytes.Count(step, separators[i:i+1])
		}
		part = part[len(step):]
	}
	return n
}

// Exceeds reports whether a part of a body has more than most [Values]. It stops counting at the
// limit.
func Exceeds(part []byte, limit int) bool {
	for limit >= 0 && len(part) > limit {
		step := part[:min(countStep, len(part))]
		limit -= Values(step)
		part = part[len(step):]
	}
	return limit < 0
}

// countStep fits in the L1 cache.
const countStep = 16 << 10

var separators = []byte(",{[")
