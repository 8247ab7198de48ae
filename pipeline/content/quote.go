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
	// The capacity is exact for texts without rare escapes, because an edit keeps its value for as
	// long as its conversation lives.
	n := len(s) + len(`""`)
	for _, escaped := range [...]string{"\n", "\t", `"`, `\`} {
		n += strings.Count(s, escaped)
	}
	out = append(slices.Grow(out, n), '"')
	for i := 0; i < len(s); {
		if len(s)-i >= 8 {
			// Copying eight bytes costs less than a search for the next special byte, see
			// [Arena.unquote].
			word := binary.LittleEndian.Uint64(unsafe.Slice(unsafe.StringData(s[i:]), 8))
			out = binary.LittleEndian.AppendUint64(out, word)
			plain := specialAt(word)
			if plain == 8 {
				i += 8
				continue
			}
			out, i = out[:len(out)-8+plain], i+plain
		}
		c := s[i]
		switch {
		case escapes[c] != 0:
			out = append(out, '\\', escapes[c])
			i++
		case c < ' ':
			const hex = "0123456789abcdef"
			out = append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			i++
		case c < utf8.RuneSelf:
			out = append(out, c)
			i++
		default:
			r, size := utf8.DecodeRuneInString(s[i:])
			out, i = utf8.AppendRune(out, r), i+size // U+FFFD for an invalid byte
		}
	}
	return append(out, '"')
}

// escapes holds the byte after the backslash for bytes with a short escape, 0 for others.
var escapes = [256]byte{'"': '"', '\\': '\\', '\n': 'n', '\t': 't', '\r': 'r'}

// specialAt returns the index of the first quote, backslash, control character or non-ASCII byte in
// eight bytes, 8 if there is none.
func specialAt(w uint64) int {
	// See [rawjson.Valid]. A byte over 0x7f is a match itself, so the high bits of the differences need
	// no mask.
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	return bits.TrailingZeros64((((w^ones*'"')-ones)|((w^ones*'\\')-ones)|(w-ones*' ')|w)&highs) / 8
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
