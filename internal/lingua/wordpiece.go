// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import (
	"unicode"
	"unicode/utf8"
)

// wordPiece splits words greedily into the longest pieces, from the front.
type wordPiece struct {
	normalizer bertNormalizer
	ids        map[string]int32
	unknown    Token
	prefix     string
	// maxRunes is the number of runes above which a word is unknown.
	maxRunes int
}

func (w *wordPiece) tokens(dst []Token, s string) []Token {
	s = w.normalizer.normalize(s)
	start := -1
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		space, sign := unicode.IsSpace(r), punctuation(r)
		if (space || sign) && start >= 0 {
			dst = w.word(dst, s[start:i])
			start = -1
		}
		switch {
		case sign:
			dst = w.word(dst, s[i:i+n])
		case !space && start < 0:
			start = i
		}
		i += n
	}
	if start >= 0 {
		dst = w.word(dst, s[start:])
	}
	return dst
}

func (w *wordPiece) word(dst []Token, s string) []Token {
	if id, ok := w.ids[s]; ok && len(s) <= w.maxRunes {
		return append(dst, Token{id, s})
	}
	if utf8.RuneCountInString(s) > w.maxRunes {
		return append(dst, w.unknown)
	}
	first := len(dst)
	buf := make([]byte, 0, 256)
	for from := 0; from < len(s); {
		to := len(s)
		for ; to > from; to-- {
			if to < len(s) && !utf8.RuneStart(s[to]) {
				continue
			}
			buf = buf[:0]
			if from > 0 {
				buf = append(buf, w.prefix...)
			}
			buf = append(buf, s[from:to]...)
			if id, ok := w.ids[string(buf)]; ok {
				dst = append(dst, Token{id, string(buf)})
				break
			}
		}
		// No piece matches, so the whole word is unknown.
		if to == from {
			return append(dst[:first], w.unknown)
		}
		from = to
	}
	return dst
}
