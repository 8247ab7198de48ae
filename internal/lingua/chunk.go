// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import (
	"fmt"
	"slices"
	"strings"
)

// maxForced bounds the forced tokens: the reference adds as many to the vocabulary.
const maxForced = 100

// padding is the padding token of the reference, for either family.
const padding = "[PAD]"

// forced are the tokens that are always kept. Those that are not single tokens of the vocabulary
// have placeholder names in the text.
type forced struct {
	tokens []string
	// names has the placeholder name of each of tokens, or "".
	names []string
}

func (m *Model) forced(tokens []string) forced {
	f := forced{tokens, make([]string, len(tokens))}
	for i, s := range tokens {
		// The model scores single tokens only.
		if len(m.tokens(s)) != 1 {
			f.names[i] = fmt.Sprintf("[NEW%d]", i)
		}
	}
	return f
}

func (f forced) has(s string) bool {
	return slices.Contains(f.tokens, s) || s != "" && slices.Contains(f.names, s)
}

// hide replaces forced tokens in a text by their placeholder names.
func (f forced) hide(s string) string {
	for i, name := range f.names {
		if name != "" {
			s = strings.ReplaceAll(s, f.tokens[i], name)
		}
	}
	return s
}

// show is the inverse of hide.
func (f forced) show(s string) string {
	if !strings.Contains(s, "[NEW") {
		return s
	}
	for i, name := range f.names {
		if name != "" {
			s = strings.ReplaceAll(s, name, f.tokens[i])
		}
	}
	return s
}

// tokens splits a text, with the names of forced tokens as added tokens.
func (m *Model) tokens(s string) []Token { return m.tokenizer.tokens(s, m.added) }

// chunks cuts a text into parts that fit a window, and decodes them. It cuts after the last of ends
// in each window.
func (m *Model) chunks(text string, ends []string) []string {
	const long = window - 2
	tokens := m.tokens(text)
	var out []string
	for start := 0; start < len(tokens); {
		end := len(tokens) - 1
		if start+long <= end {
			end = start + long
			for j := end; j > start; j-- {
				if slices.Contains(ends, tokens[j].Text) {
					end = j
					break
				}
			}
		}
		texts := make([]string, 0, end+1-start)
		for _, t := range tokens[start : end+1] {
			texts = append(texts, t.Text)
		}
		out = append(out, m.tokenizer.decode(texts))
		start = end + 1
	}
	return out
}
