// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package rawjson scans and builds JSON text. It validates a text, walks it without recursion, and
// keeps the client's bytes: key order, number forms and escapes.
package rawjson

import (
	"bytes"
	"iter"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

// Value is a JSON value in the client's bytes. Its methods require a well-formed value.
type Value []byte

// ends are the bytes that may end or structure a value.
var ends = [256]bool{'"': true, '{': true, '[': true, '}': true, ']': true, ',': true, ' ': true, '\n': true, '\t': true, '\r': true}

// Trim returns the value without surrounding white space.
func (v Value) Trim() Value { return Value(bytes.Trim(v, " \n\t\r")) }

// IsObject reports whether the value is an object.
func (v Value) IsObject() bool { return len(v) > 0 && v[0] == '{' }

// IsArray reports whether the value is an array.
func (v Value) IsArray() bool { return len(v) > 0 && v[0] == '[' }

// IsString reports whether the value is a string.
func (v Value) IsString() bool { return len(v) > 0 && v[0] == '"' }

// IsNumber reports whether the value is a number.
func (v Value) IsNumber() bool { return len(v) > 0 && (v[0] == '-' || v[0] >= '0' && v[0] <= '9') }

// IsTrue reports whether the value is true.
func (v Value) IsTrue() bool { return string(v) == "true" }

// Absent reports whether the value is missing, null, false, or an empty string, array or object:
// the values that clients send for an unused member.
func (v Value) Absent() bool {
	switch string(v) {
	case "", "null", "false", `""`, "[]", "{}":
		return true
	}
	return false
}

// Used returns the value, nil if it is null.
func (v Value) Used() Value {
	if string(v) == "null" {
		return nil
	}
	return v
}

// Members yields the members of an object, and nothing for other values.
func (v Value) Members() iter.Seq2[string, Value] { return (*Index)(nil).Members(v) }

// Elements yields the elements of an array, and nothing for other values.
func (v Value) Elements() iter.Seq2[int, Value] { return (*Index)(nil).Elements(v) }

// Member returns a member of an object, nil for none.
func (v Value) Member(name string) Value { return (*Index)(nil).Member(v, name) }

// Text returns the inside of a string, with escapes.
func (v Value) Text() Text {
	if !v.IsString() {
		return nil
	}
	return Text(v[1 : len(v)-1])
}

// Str returns a string's decoded text.
func (v Value) Str() string { return v.Text().Decoded() }

// Int returns a number without its fraction, false for other values and numbers beyond 32 bits.
func (v Value) Int() (int, bool) {
	if !v.IsNumber() {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f < -1<<31 || f > 1<<31 {
		return 0, false
	}
	return int(f), true
}

// Text is the inside of a JSON string, with escapes. It can be copied to another body unchanged.
type Text []byte

// Empty reports whether the text is empty.
func (t Text) Empty() bool { return len(t) == 0 }

// Decoded returns the text without escapes.
func (t Text) Decoded() string {
	if bytes.IndexByte(t, '\\') < 0 {
		return string(t)
	}
	return string(t.AppendDecoded(make([]byte, 0, len(t))))
}

// name returns a decoded member name, interned because names repeat.
func (t Text) name() string {
	if bytes.IndexByte(t, '\\') < 0 {
		return reuse.Intern(t)
	}
	return t.Decoded()
}

// AppendDecoded appends the decoded text. An unpaired surrogate has no UTF-8 form and stays an
// escape.
func (t Text) AppendDecoded(b []byte) []byte { return t.appendDecoded(b, "") }

// appendDecoded is AppendDecoded with a replacement for unpaired surrogates, "" for none.
func (t Text) appendDecoded(b []byte, half string) []byte {
	for i := 0; i < len(t); {
		n := bytes.IndexByte(t[i:], '\\')
		if n < 0 || i+n+1 >= len(t) {
			return append(b, t[i:]...)
		}
		b = append(b, t[i:i+n]...)
		i += n
		switch c := t[i+1]; c {
		case 'n':
			b = append(b, '\n')
		case 't':
			b = append(b, '\t')
		case 'r':
			b = append(b, '\r')
		case 'b':
			b = append(b, '\b')
		case 'f':
			b = append(b, '\f')
		case 'u':
			r, size := t[i:].unicode()
			switch {
			case r >= 0:
				b = utf8.AppendRune(b, r)
			case half != "":
				b = append(b, half...)
			default:
				b = append(b, t[i:i+size]...)
			}
			i += size
			continue
		default:
			b = append(b, c)
		}
		i += 2
	}
	return b
}

// unicode decodes the \u escape at the beginning of t, or two escapes of a surrogate pair. It
// returns -1 for an unpaired surrogate.
func (t Text) unicode() (r rune, size int) {
	hex := func(b []byte) rune {
		if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
			return -1
		}
		n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
		if err != nil {
			return -1
		}
		return rune(n)
	}
	r = hex(t)
	if r < 0 {
		return utf8.RuneError, min(len(t), 6)
	}
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if pair := utf16.DecodeRune(r, hex(t[6:])); pair != utf8.RuneError {
		return pair, 12
	}
	return -1, 6
}

// AppendEscaped appends bytes as the inside of a JSON string, with the minimum of escapes.
func AppendEscaped[T []byte | string | Value](b []byte, s T) []byte {
	const digits = "0123456789abcdef"
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\t':
			b = append(b, '\\', 't')
		case '\r':
			b = append(b, '\\', 'r')
		default:
			b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
	}
	return append(b, s[from:]...)
}

// AppendQuoted appends a text as a JSON string.
func AppendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	b = AppendEscaped(b, s)
	return append(b, '"')
}

// Escaped returns a Go string as the inside of a JSON string.
func Escaped(s string) Text { return AppendEscaped(nil, s) }

// AppendKey appends a member's name and colon to an object.
func AppendKey(b Value, key string) Value {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(AppendEscaped(append(b, '"'), key), `":`...)
}
