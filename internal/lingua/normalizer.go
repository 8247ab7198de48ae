// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// bertNormalizer is the normalization of BERT's tokenizers before they split words.
type bertNormalizer struct {
	Clean        bool  `json:"clean_text"`
	Chinese      bool  `json:"handle_chinese_chars"`
	StripAccents *bool `json:"strip_accents"`
	Lowercase    bool  `json:"lowercase"`
}

func (n bertNormalizer) normalize(s string) string {
	if plain(s) && !n.Lowercase {
		return s
	}
	b := make([]byte, 0, len(s)+16)
	for _, r := range s {
		switch {
		case n.Clean && dropped(r):
		case n.Clean && unicode.IsSpace(r):
			b = append(b, ' ')
		case n.Chinese && ideograph(r):
			b = append(b, ' ')
			b = utf8.AppendRune(b, r)
			b = append(b, ' ')
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	strip := n.Lowercase
	if n.StripAccents != nil {
		strip = *n.StripAccents
	}
	if strip {
		b = withoutMarks(norm.NFD.Bytes(b))
	}
	if n.Lowercase {
		b = lower(b)
	}
	return string(b)
}

// plain reports whether s consists of ASCII that normalization keeps, or of white space.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c >= 0x7f || c < ' ' && c != '\n' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}

func withoutMarks(b []byte) []byte {
	kept := b[:0]
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if !unicode.Is(unicode.Mn, r) {
			kept = append(kept, b[:n]...)
		}
		b = b[n:]
	}
	return kept
}

func lower(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		b = b[n:]
		out = utf8.AppendRune(out, unicode.ToLower(r))
		if r == 'İ' { // its lower case is two runes
			out = utf8.AppendRune(out, 0x307)
		}
	}
	return out
}

// dropped reports whether BERT's normalizer removes a rune.
func dropped(r rune) bool {
	switch {
	case r == '\t' || r == '\n' || r == '\r':
		return false
	case r == 0 || r == utf8.RuneError:
		return true
	case r < 0x80:
		return r < ' ' || r == 0x7f
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co) && !unicode.Is(younger, r)
}

// ideograph reports whether a rune is a word of its own. The ranges are those of BERT's original
// tokenizer, with its mistake in the fourth extension.
func ideograph(r rune) bool {
	return r >= 0x3400 && (r <= 0x4dbf || r >= 0x4e00 && r <= 0x9fff || r >= 0xf900 && r <= 0xfaff ||
		r >= 0x20000 && r <= 0x2a6df || r >= 0x2a700 && r <= 0x2b73f || r >= 0x2b740 && r <= 0x2b81f ||
		r >= 0x2b920 && r <= 0x2ceaf || r >= 0x2f800 && r <= 0x2fa1f)
}

// punctuation reports whether BERT's tokenizers make a token of the rune.
func punctuation(r rune) bool {
	if r < 0x80 {
		return r > ' ' && r < '0' || r > '9' && r < 'A' || r > 'Z' && r < 'a' || r > 'z' && r < 0x7f
	}
	return unicode.Is(unicode.P, r) && !unicode.Is(younger, r) || r == 0x166d || r == 0x111c9
}

// younger are punctuation and format characters newer than the Unicode version of Hugging Face's
// tokenizers. U+166D and U+111C9 were punctuation in that version.
var younger = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x61d, Hi: 0x61d, Stride: 1},
		{Lo: 0x890, Hi: 0x891, Stride: 1},
		{Lo: 0x8e2, Hi: 0x8e2, Stride: 1},
		{Lo: 0x9fd, Hi: 0x9fd, Stride: 1},
		{Lo: 0xa76, Hi: 0xa76, Stride: 1},
		{Lo: 0xc77, Hi: 0xc77, Stride: 1},
		{Lo: 0xc84, Hi: 0xc84, Stride: 1},
		{Lo: 0x1b7d, Hi: 0x1b7e, Stride: 1},
		{Lo: 0x2e43, Hi: 0x2e4f, Stride: 1},
		{Lo: 0x2e52, Hi: 0x2e5d, Stride: 1},
	},
	R32: []unicode.Range32{
		{Lo: 0x10ead, Hi: 0x10ead, Stride: 1},
		{Lo: 0x10f55, Hi: 0x10f59, Stride: 1},
		{Lo: 0x10f86, Hi: 0x10f89, Stride: 1},
		{Lo: 0x110cd, Hi: 0x110cd, Stride: 1},
		{Lo: 0x1144b, Hi: 0x1144f, Stride: 1},
		{Lo: 0x1145a, Hi: 0x1145b, Stride: 1},
		{Lo: 0x1145d, Hi: 0x1145d, Stride: 1},
		{Lo: 0x11660, Hi: 0x1166c, Stride: 1},
		{Lo: 0x116b9, Hi: 0x116b9, Stride: 1},
		{Lo: 0x1183b, Hi: 0x1183b, Stride: 1},
		{Lo: 0x11944, Hi: 0x11946, Stride: 1},
		{Lo: 0x119e2, Hi: 0x119e2, Stride: 1},
		{Lo: 0x11a3f, Hi: 0x11a46, Stride: 1},
		{Lo: 0x11a9a, Hi: 0x11a9c, Stride: 1},
		{Lo: 0x11a9e, Hi: 0x11aa2, Stride: 1},
		{Lo: 0x11b00, Hi: 0x11b09, Stride: 1},
		{Lo: 0x11c41, Hi: 0x11c45, Stride: 1},
		{Lo: 0x11c70, Hi: 0x11c71, Stride: 1},
		{Lo: 0x11ef7, Hi: 0x11ef8, Stride: 1},
		{Lo: 0x11f43, Hi: 0x11f4f, Stride: 1},
		{Lo: 0x11fff, Hi: 0x11fff, Stride: 1},
		{Lo: 0x12ff1, Hi: 0x12ff2, Stride: 1},
		{Lo: 0x13430, Hi: 0x1343f, Stride: 1},
		{Lo: 0x16e97, Hi: 0x16e9a, Stride: 1},
		{Lo: 0x16fe2, Hi: 0x16fe2, Stride: 1},
		{Lo: 0x1e95e, Hi: 0x1e95f, Stride: 1},
	},
}
