// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package content reads and writes the texts in the bodies of blocks.
package content

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// IsText reports whether a part of a content is text.
func IsText(part gjson.Result) bool {
	kind := part.Get("type").Str
	return kind == "text" || kind == "input_text"
}

// Of decodes the text of a block's body: a string, or the text parts of an array, joined by line
// ends. If the text is output in a JSON envelope, Of returns the output.
func Of(v *wire.View, b *wire.Block) string { return Decode(nil, v, b, Unwrap) }

// Verbatim is [Of] with JSON envelopes left in place.
func Verbatim(v *wire.View, b *wire.Block) string {
	return Decode(nil, v, b, func(s string) string { return s })
}

// Decode is [Of] with an arena for the text and a function applied to each text.
func Decode(p *Arena, v *wire.View, b *wire.Block, unwrap func(string) string) string {
	body := v.Bytes(b.Body)
	if len(body) == 0 {
		return ""
	}
	if body[0] == '"' {
		return unwrap(p.unquote(body))
	}
	content := gjson.ParseBytes(body)
	if !content.IsArray() {
		return content.String()
	}
	var s strings.Builder
	content.ForEach(func(_, part gjson.Result) bool {
		if IsText(part) {
			if s.Len() > 0 {
				s.WriteByte('\n')
			}
			s.WriteString(unwrap(part.Get("text").String()))
		}
		return true
	})
	return s.String()
}

// Unquote decodes a JSON string.
func Unquote(raw []byte) string { return (*Arena)(nil).unquote(raw) }

// unquote decodes a JSON string into the arena.
func (p *Arena) unquote(raw []byte) string {
	s := raw[1 : len(raw)-1]
	out := p.take(len(s)) // at least as long as the decoded rest
	i, n := 0, 0
	for i < len(s) {
		if s[i] != '\\' || i+1 == len(s) {
			plain := 0
			if i+8 <= len(s) {
				// Tool results have an escape in every line, and often every few bytes. The next
				// eight bytes are therefore checked as one word, before a search for a distant
				// backslash.
				word := binary.LittleEndian.Uint64(s[i:])
				binary.LittleEndian.PutUint64(out[n:], word)
				if plain = backslashAt(word); plain < 8 {
					i, n = i+plain, n+plain
					continue
				}
			}
			if rest := bytes.IndexByte(s[i+plain:], '\\'); rest < 0 || i+plain+rest+1 == len(s) {
				plain = len(s) - i
			} else {
				plain += rest
			}
			i, n = i+plain, n+copy(out[n:], s[i:i+plain])
			continue
		}
		c := s[i+1]
		if c == 'u' {
			r, size := escapedRune(s[i:])
			if size == 0 {
				break
			}
			i, n = i+size, n+utf8.EncodeRune(out[n:], r) // no rune is longer than its escape
			continue
		}
		if unescaped[c] == 0 { // not a JSON escape
			break
		}
		out[n] = unescaped[c]
		i, n = i+2, n+1
	}
	return unsafe.String(unsafe.SliceData(out), n) // no other reference to the bytes exists
}

// unescaped holds the meaning of the byte after a backslash, 0 for none.
var unescaped = [256]byte{
	'"': '"', '\\': '\\', '/': '/', 'n': '\n', 't': '\t', 'r': '\r', 'b': '\b', 'f': '\f',
}

// escapedRune decodes the \u escape at the beginning of s, including the second half of a surrogate
// pair. It returns the length of the escape, 0 if it is cut off. Half a pair decodes to the
// replacement character.
func escapedRune(s []byte) (r rune, size int) {
	if len(s) < 6 {
		return 0, 0
	}
	if r = hex4(s[2:]); utf16.IsSurrogate(r) && len(s) >= 12 && s[6] == '\\' && s[7] == 'u' {
		return utf16.DecodeRune(r, hex4(s[8:])), 12
	}
	return r, 6
}

// hex4 reads four hexadecimal digits.
func hex4(s []byte) (r rune) {
	for _, c := range s[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0
		}
		r = r<<4 | rune(c)
	}
	return r
}

// backslashAt returns the index of the first backslash in eight bytes, 8 if there is none.
func backslashAt(word uint64) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	x := word ^ '\\'*ones
	return bits.TrailingZeros64((x-ones)&^x&highs) / 8
}
