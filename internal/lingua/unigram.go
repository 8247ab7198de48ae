// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// metaspace stands for the space before a word.
const metaspace = "▁"

// unigram splits words into the most likely sequence of pieces.
type unigram struct {
	charsmap charsmap
	// squeeze replaces several spaces by one, after the character map.
	squeeze bool
	// whole does not split the text at white space other than spaces.
	whole    bool
	lexicon  *lexicon
	ids      map[string]int32
	scores   []float64
	unknown  int32
	minScore float64
	best     []arrival
	backward []string
}

// arrival is the best path to a position in a word.
type arrival struct {
	score float64
	from  int
	id    int32
}

func (u *unigram) tokens(dst []Token, s string) []Token {
	b := u.charsmap.normalize(make([]byte, 0, len(s)+8), s)
	s = string(b)
	if u.squeeze {
		for strings.Contains(s, "  ") {
			s = strings.ReplaceAll(s, "  ", " ")
		}
	}
	if u.whole {
		if s == "" {
			return dst
		}
		return u.words(dst, strings.ReplaceAll(s, " ", metaspace))
	}
	for word := range strings.FieldsFuncSeq(s, unicode.IsSpace) {
		dst = u.words(dst, word)
	}
	return dst
}

// words splits before each metaspace, and adds one at the beginning.
func (u *unigram) words(dst []Token, s string) []Token {
	if !strings.HasPrefix(s, metaspace) {
		s = metaspace + s
	}
	for {
		end := strings.Index(s[len(metaspace):], metaspace)
		if end < 0 {
			return u.word(dst, s)
		}
		end += len(metaspace)
		dst = u.word(dst, s[:end])
		s = s[end:]
	}
}

func (u *unigram) word(dst []Token, s string) []Token {
	for len(u.best) <= len(s) {
		u.best = append(u.best, arrival{})
	}
	best := u.best[:len(s)+1]
	for i := range best {
		best[i] = arrival{from: -1}
	}
	// Viterbi search: the best score for each end position.
	for at := 0; at < len(s); {
		_, size := utf8.DecodeRuneInString(s[at:])
		here, single := best[at].score, false
		reach := func(n int, id int32, score float64) {
			if to := &best[at+n]; to.from < 0 || score > to.score {
				*to = arrival{score, at, id}
			}
		}
		u.lexicon.prefixes(s[at:], func(n int, id int32) {
			reach(n, id, u.scores[id]+here)
			single = single || n == size
		})
		// An unknown rune scores 10 below the least likely piece.
		if !single {
			reach(size, u.unknown, u.minScore-10+here)
		}
		at += size
	}
	parts := u.backward[:0]
	for at := len(s); at > 0; {
		a := best[at]
		end := at
		// Adjacent unknown pieces form one token.
		for a.id == u.unknown && a.from > 0 && best[a.from].id == u.unknown {
			a = best[a.from]
		}
		parts = append(parts, s[a.from:end])
		at = a.from
	}
	u.backward = parts
	for i := len(parts) - 1; i >= 0; i-- {
		id, ok := u.ids[parts[i]]
		if !ok {
			id = u.unknown
		}
		dst = append(dst, Token{id, parts[i]})
	}
	return dst
}

func lowest(scores []float64) float64 {
	low := math.Inf(1)
	for _, s := range scores {
		low = min(low, s)
	}
	return low
}
