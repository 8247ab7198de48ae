// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"cmp"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Append appends a text as a JSON string, with the minimum of escapes to keep the body short.
func Append(out []byte, s string) []byte {
	const hex = "0123456789abcdef"
	out = append(out, '"')
	copied := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
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
