// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Append appends a text as a JSON string, with the minimum of escapes to keep the body short.
func Append(out []byte, s string) []byte {
	const hex = "0123456789abcdef"
	// The capacity is exact for texts without rare escapes, because an edit keeps its value for as
	// long as its conversation lives.
	n := len(s) + len(`""`)
	for _, escaped := range [...]string{"\n", "\t", `"`, `\`} {
		n += strings.Count(s, escaped)
	}
	out = append(slices.Grow(out, n), '"')
	copied := 0
	for i := plainEnd(s, 0); i < len(s); i = plainEnd(s, i) {
		c := s[i]
		if c >= utf8.RuneSelf {
			if r, n := utf8.DecodeRuneInString(s[i:]); r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
			out = append(append(out, s[copied:i]...), "\uFFFD"...)
			i++
			copied = i
			continue
		}
		out = append(out, s[copied:i]...)
		switch c {
		case '"', '\\':
			out = append(out, '\\', c)
		case '\n':
			out = append(out, '\\', 'n')
		case '\t':
			out = append(out, '\\', 't')
		case '\r':
			out = append(out, '\\', 'r')
		default:
			out = append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		copied = i
	}
	return append(append(out, s[copied:]...), '"')
}

// plainEnd returns the index of the first quote, backslash, control character or non-ASCII byte in
// s[i:], or len(s).
func plainEnd(s string, i int) int {
	// Eight bytes at a time, see [rawjson.Valid]. A byte over 0x7f is a match itself, so the high bits
	// of the differences need no mask.
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; len(s)-i >= 8; i += 8 {
		w := binary.LittleEndian.Uint64(unsafe.Slice(unsafe.StringData(s[i:]), 8))
		if found := (((w ^ ones*'"') - ones) | ((w ^ ones*'\\') - ones) | (w - ones*' ') | w) & highs; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(s) && s[i] >= ' ' && s[i] != '"' && s[i] != '\\' && s[i] < utf8.RuneSelf {
		i++
	}
	return i
}

// Quote encodes a text as a JSON string.
func Quote(s string) []byte {
	return gjson.AppendJSONString(make([]byte, 0, len(s)+16), strings.ToValidUTF8(s, "\uFFFD"))
}

// WithText returns a tool result's new content: the text, followed by the non-text parts in the
// client's own bytes.
func WithText(v *wire.View, b *wire.Block, text string) []byte {
	if !b.Has(wire.FlagMedia) || v.Traits().MediaBesideResult {
		// In some formats, the other parts are not in the result but beside it.
		return Quote(text)
	}
	out := append([]byte(`[{"type":"`), cmp.Or(v.Traits().TextType, "text")...)
	out = append(append(append(out, `","text":`...), Quote(text)...), '}')
	gjson.ParseBytes(v.Bytes(b.Body)).ForEach(func(_, part gjson.Result) bool {
		if !IsText(part) {
			out = append(append(out, ','), part.Raw...)
		}
		return true
	})
	return append(out, ']')
}
