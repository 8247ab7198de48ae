// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

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

// unicode decodes the \u escape at the beginning of t, or two escapes of a surrogate pair.
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
	// An unpaired surrogate has no character.
	return -1, 6
}

// Paired returns JSON text with a replacement character for the escape of each unpaired surrogate, which strict
// parsers refuse. Without any it returns data itself.
func Paired(data []byte) []byte {
	out, from := []byte(nil), 0
	for i := 0; ; {
		n := bytes.IndexByte(data[i:], '\\')
		if n < 0 || i+n+1 >= len(data) {
			break
		}
		if i += n; data[i+1] != 'u' {
			i += 2
			continue
		}
		r, size := Text(data[i:]).unicode()
		if r < 0 {
			out = append(append(out, data[from:i]...), `\ufffd`...)
			from = i + size
		}
		i += size
	}
	if out == nil {
		return data
	}
	return append(out, data[from:]...)
}

// Plain decodes the inside of a JSON string. Without escapes it returns inside itself.
func Plain(inside string) string {
	if strings.IndexByte(inside, '\\') < 0 {
		return inside
	}
	text := Text(unsafe.Slice(unsafe.StringData(inside), len(inside)))
	return View(text.appendDecoded(make([]byte, 0, len(inside)), "\uFFFD"))
}

// Inner returns the inside of a JSON string.
func Inner(v gjson.Result) string {
	if v.Type != gjson.String || len(v.Raw) < 2 {
		return ""
	}
	return v.Raw[1 : len(v.Raw)-1]
}

// InnerJSON returns the inside of a string with JSON, such as call arguments. Some servers send the
// object itself instead of a string.
func InnerJSON(v gjson.Result) string {
	if v.IsObject() {
		return View(Escaped(v.Raw))
	}
	return Inner(v)
}

// AppendLine appends JSON without line ends. In valid JSON they only occur between tokens.
func AppendLine(dst []byte, json string) []byte {
	for i := range len(json) {
		if c := json[i]; c != '\n' && c != '\r' {
			dst = append(dst, c)
		}
	}
	return dst
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

// Escaped returns a Go string as the inside of a JSON string.
func Escaped(s string) Text { return AppendEscaped(nil, s) }

// View returns b as a string without copying. The string and its substrings must not be used after
// b changes or is recycled.
func View(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// ObjectEnd detects the end of a JSON object, such as call arguments, that arrives in pieces. The
// input is the inside of a JSON string, so the object's own quotes are escaped.
type ObjectEnd struct {
	depth             int
	inString, escaped bool
	closed            bool
}

// Complete reports whether the object is complete.
func (a *ObjectEnd) Complete() bool { return a.closed }

// Read reads the next piece.
func (a *ObjectEnd) Read(s string) {
	for i := 0; i < len(s) && !a.closed; i++ {
		c := s[i]
		if c == '\\' && i+1 < len(s) {
			i++
			switch c = s[i]; c {
			case 'n', 't', 'r', 'b', 'f':
				// Control characters do not affect the nesting.
				c = ' '
			case 'u':
				c = 'x'
				if i+4 < len(s) {
					if n, err := strconv.ParseUint(s[i+1:i+5], 16, 16); err == nil && n < 0x80 {
						c = byte(n)
					}
					i += 4
				}
			}
		}
		a.take(c)
	}
}

func (a *ObjectEnd) take(c byte) {
	switch {
	case a.escaped:
		a.escaped = false
	case a.inString:
		a.escaped = c == '\\'
		a.inString = c != '"'
	case c == '"':
		a.inString = true
	case c == '{' || c == '[':
		a.depth++
	case c == '}' || c == ']':
		a.depth--
		a.closed = a.depth <= 0
	}
}
