// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import "strings"

// decode joins tokens, or words, to a text as the tokenizer's decoder does.
func (t *Tokenizer) decode(tokens []string) string {
	var b strings.Builder
	for i, s := range tokens {
		if t.family == XLMRoberta {
			// A text does not begin with a space.
			if i == 0 {
				s = strings.ReplaceAll(s, metaspace, "")
			}
			b.WriteString(strings.ReplaceAll(s, metaspace, " "))
			continue
		}
		if i > 0 {
			if rest, ok := strings.CutPrefix(s, t.prefix); ok {
				s = rest
			} else {
				s = " " + s
			}
		}
		if t.cleanup {
			s = tidy(s)
		}
		b.WriteString(s)
	}
	return b.String()
}

// tidy removes spaces around punctuation and contractions from a single piece. The order of the
// replacements matters.
func tidy(s string) string {
	if !strings.Contains(s, " ") {
		return s
	}
	for _, r := range tidied {
		s = strings.ReplaceAll(s, r[0], r[1])
	}
	return s
}

var tidied = [...][2]string{
	{" .", "."},
	{" ?", "?"},
	{" !", "!"},
	{" ,", ","},
	{" ' ", "'"},
	{" n't", "n't"},
	{" 'm", "'m"},
	{" do not", " don't"},
	{" 's", "'s"},
	{" 've", "'ve"},
	{" 're", "'re"},
}
