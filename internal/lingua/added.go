// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import (
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedToken is a token that is matched in the text before normalization, and never split.
type addedToken struct {
	ID      int32  `json:"id"`
	Content string `json:"content"`
	// LeftStrip and RightStrip include the white space on that side.
	LeftStrip  bool `json:"lstrip"`
	RightStrip bool `json:"rstrip"`
	SingleWord bool `json:"single_word"`
	Normalized bool `json:"normalized"`
	Special    bool `json:"special"`
}

// addedTokens are sorted by length, longest first, so that the longest match at a place is found.
type addedTokens struct {
	tokens []addedToken
	// firsts are the first bytes of all tokens.
	firsts string
}

func newAddedTokens(tokens []addedToken) addedTokens {
	sort.SliceStable(tokens, func(i, j int) bool { return len(tokens[i].Content) > len(tokens[j].Content) })
	var firsts strings.Builder
	for _, t := range tokens {
		if strings.IndexByte(firsts.String(), t.Content[0]) < 0 {
			firsts.WriteByte(t.Content[0])
		}
	}
	return addedTokens{tokens, firsts.String()}
}

// split calls text with the text between added tokens, and token with each added token and its
// text, white space on its sides included.
func (a addedTokens) split(s string, text func(string), token func(Token)) {
	start := 0
	for i := 0; i < len(s); {
		if strings.IndexByte(a.firsts, s[i]) < 0 {
			i++
			continue
		}
		t, ok := a.at(s[i:])
		if !ok {
			i++
			continue
		}
		left, right := i, i+len(t.Content)
		if t.LeftStrip {
			left = start + len(strings.TrimRightFunc(s[start:i], unicode.IsSpace))
		}
		if t.RightStrip {
			right = len(s) - len(strings.TrimLeftFunc(s[right:], unicode.IsSpace))
		}
		if left > start {
			text(s[start:left])
		}
		token(Token{t.ID, s[left:right]})
		start, i = right, right
	}
	if start < len(s) {
		text(s[start:])
	}
}

func (a addedTokens) at(s string) (addedToken, bool) {
	for _, t := range a.tokens {
		if strings.HasPrefix(s, t.Content) {
			return t, true
		}
	}
	return addedToken{}, false
}

// each calls f with every rune of s as a string. It passes invalid UTF-8 byte by byte.
func each(s string, f func(r rune, text string)) {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		f(r, s[i:i+n])
		i += n
	}
}
