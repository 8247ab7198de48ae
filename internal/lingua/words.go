// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import (
	"strings"
	"unicode"
)

// word is a run of tokens that are kept or dropped together.
type word struct {
	text string
	// keep is the probability that the word matters, 0 to 1.
	keep float64
	// parts are the probabilities of its tokens.
	parts []float64
}

// signs begin a word everywhere, for XLM-RoBERTa. The reference tests whether a token is a
// substring of this string, so that "()" and "./" begin a word and "==" does not.
const signs = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"

// words joins tokens to words.
func (m *Model) words(tokens []Token, keep []float32, f forced, o Compression) []word {
	var words []word
	for i, t := range tokens {
		name := m.name(t.ID)
		if m.special(name) {
			continue
		}
		p, pure := float64(keep[i]), m.pure(name)
		begins := len(words) == 0 || m.begins(name, pure, f)
		if begins {
			// Forced tokens are always kept.
			if f.has(pure) {
				p = 1
			}
			name = f.show(name)
		}
		if o.KeepDigits && strings.ContainsFunc(name, func(r rune) bool { return unicode.Is(unicode.Nd, r) }) {
			p = 1
		}
		if begins {
			words = append(words, word{text: name, parts: []float64{p}})
			continue
		}
		last := &words[len(words)-1]
		last.text += pure
		last.parts = append(last.parts, p)
	}
	for i := range words {
		words[i].weigh(o.FirstToken)
	}
	return words
}

func (w *word) weigh(first bool) {
	if first {
		w.keep = w.parts[0]
		return
	}
	sum := 0.0
	for _, p := range w.parts {
		sum += p
	}
	w.keep = sum / float64(len(w.parts))
}

// name returns the name of an id in the vocabulary.
func (m *Model) name(id int32) string {
	if int(id) < len(m.tokenizer.vocabulary) {
		return m.tokenizer.vocabulary[id]
	}
	return m.forcedNames[int(id)-len(m.tokenizer.vocabulary)]
}

func (m *Model) pure(name string) string {
	if m.Family() == XLMRoberta {
		return strings.TrimLeft(name, metaspace)
	}
	return strings.TrimLeft(name, "#")
}

func (m *Model) begins(name, pure string, f forced) bool {
	if m.Family() == XLMRoberta {
		return strings.HasPrefix(name, metaspace) || strings.Contains(signs, name) || f.has(name)
	}
	return !strings.HasPrefix(name, "##") || f.has(pure)
}

// special reports whether a token is never part of a text.
func (m *Model) special(name string) bool {
	if m.Family() == XLMRoberta {
		switch name {
		case "<s>", "</s>", "<unk>", "<pad>", "<mask>":
			return true
		}
		return false
	}
	switch name {
	case "[CLS]", "[SEP]", "[UNK]", padding, "[MASK]":
		return true
	}
	return false
}

// plainWords returns the words of a text that is kept whole.
func plainWords(dst []Word, s string) []Word {
	start := -1
	for i, r := range s {
		if r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) {
			if start < 0 {
				start = i
			}
			continue
		}
		if start >= 0 {
			dst = append(dst, Word{Text: s[start:i], Keep: true})
			start = -1
		}
		if strings.ContainsRune("<>=/!@#$%^&*()?\":{}|\\`~;+-", r) {
			dst = append(dst, Word{Text: string(r), Keep: true})
		}
	}
	if start >= 0 {
		dst = append(dst, Word{Text: s[start:], Keep: true})
	}
	return dst
}
