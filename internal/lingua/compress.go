// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lingua/cl100k"
)

// Compression sets the strength of a compression, and the exceptions from it.
type Compression struct {
	// Rate is the part of the tokens to keep, over 0 and up to 1. Default: 0.5.
	Rate float64
	// Tokens, if set, is the number of tokens to keep, and takes precedence over Rate.
	Tokens int
	// Force are strings to keep everywhere, up to 100.
	Force []string
	// KeepDigits gives tokens with digits the probability 1.
	KeepDigits bool
	// DropConsecutive keeps one of several equal forced strings in a row.
	DropConsecutive bool
	// FirstToken takes the probability of a word's first token, not the mean of all.
	FirstToken bool
	// Ends are the tokens after which a text longer than the model's window may be cut. Default:
	// "." and "\n".
	Ends []string
}

// Word is a word of a text, and whether it was kept.
type Word struct {
	Text string
	Keep bool
	// Probability is the model's probability that the word matters, 0 to 1.
	Probability float64
}

// Result is a compressed text.
type Result struct {
	Text  string
	Words []Word
	// Before and After are the numbers of tokens, by cl100k_base.
	Before, After int
}

// Compress drops the least important words of a text, word for word as the reference implementation
// of LLMLingua-2 does. The result does not keep the text's white space, unless it is forced.
func (m *Model) Compress(ctx context.Context, text string, o Compression) (Result, error) {
	if o.Rate == 0 {
		o.Rate = 0.5
	}
	if o.Ends == nil {
		o.Ends = []string{".", "\n"}
	}
	switch {
	case o.Rate < 0 || o.Rate > 1:
		return Result{}, fmt.Errorf("rate %v: it lies over 0 and up to 1", o.Rate)
	case len(o.Force) > maxForced:
		return Result{}, fmt.Errorf("%d forced tokens: there may be %d", len(o.Force), maxForced)
	}
	if slices.Contains(o.Force, "") {
		return Result{}, errors.New("a forced token is empty")
	}
	result := Result{Before: cl100k.Count(text)}
	f, ends := m.forced(o.Force), o.Ends
	for i, name := range f.names {
		for _, end := range o.Ends {
			if name != "" && end == o.Force[i] {
				// Copy the slice, which may be the caller's.
				ends = append(ends[:len(ends):len(ends)], name)
			}
		}
	}
	chunks := m.chunks(f.hide(text), ends)
	if o.Tokens > 0 && result.Before > 0 {
		o.Rate = min(float64(o.Tokens)/float64(result.Before), 1)
	}
	reduce := 1 - o.Rate
	var out strings.Builder
	for _, chunk := range chunks {
		if reduce <= 0 {
			chunk = f.show(chunk)
			out.WriteString(chunk)
			result.Words = plainWords(result.Words, chunk)
			continue
		}
		words, err := m.score(ctx, chunk, f, o)
		if err != nil {
			return Result{}, err
		}
		kept := drop(words, reduce, f, o)
		texts := make([]string, 0, len(words))
		for i, w := range words {
			if kept[i] {
				texts = append(texts, w.text)
			}
			if m.Family() == XLMRoberta {
				w.text = m.pure(w.text)
			}
			result.Words = append(result.Words, Word{w.text, kept[i], w.keep})
		}
		out.WriteString(m.tokenizer.decode(texts))
	}
	result.Text = out.String()
	result.After = cl100k.Count(result.Text)
	return result, nil
}

// score returns the words of a chunk with their probabilities.
func (m *Model) score(ctx context.Context, chunk string, f forced, o Compression) ([]word, error) {
	t := m.tokenizer
	// The reference uses BERT's names for both ends. XLM-RoBERTa does not know them.
	first, last := Token{t.id("[CLS]"), "[CLS]"}, Token{t.id("[SEP]"), "[SEP]"}
	tokens := append(append([]Token{first}, m.tokens(chunk)...), last)
	// The reference looks ids up by text, so that an added token with white space around it is unknown.
	for i, t := range tokens {
		if m.name(t.ID) != t.Text {
			tokens[i].ID = m.tokenizer.unknown
		}
	}
	tokens, keep, err := m.keep(ctx, tokens[:min(len(tokens), window)])
	if err != nil {
		return nil, err
	}
	return m.words(tokens, keep, f, o), nil
}

// drop decides for each word of a chunk whether it is kept.
func drop(words []word, reduce float64, f forced, o Compression) []bool {
	kept := make([]bool, len(words))
	if len(words) == 0 {
		return kept
	}
	if o.DropConsecutive {
		dropRepeated(words, reduce, f)
	}
	var probabilities []float64
	for _, w := range words {
		for range cl100k.Count(w.text) {
			probabilities = append(probabilities, w.keep)
		}
	}
	// The reference rounds the percentage like this.
	percent := int(float64(100*reduce) + 1)
	if percent > 100 {
		return kept
	}
	threshold := percentile(probabilities, percent)
	last := -1
	for i, w := range words {
		if w.keep <= threshold && (threshold != 1 || w.keep != 1) {
			continue
		}
		if o.DropConsecutive && f.isToken(w.text) && last >= 0 && words[last].text == w.text {
			continue
		}
		kept[i], last = true, i
	}
	return kept
}

// dropRepeated sets the probability of a repeated forced word to zero, unless a word that is likely
// to stay is between the two.
func dropRepeated(words []word, reduce float64, f forced) {
	all := make([]float64, len(words))
	for i, w := range words {
		all[i] = w.keep
	}
	threshold := percentile(all, int(float64(100*reduce)))
	between, previous := false, ""
	for i, w := range words {
		switch {
		case !f.isToken(w.text):
			between = between || w.keep > threshold
			continue
		case between:
			between = false
		case w.text == previous:
			words[i].keep = 0
		}
		previous = w.text
	}
}

func (f forced) isToken(s string) bool {
	return slices.Contains(f.tokens, s)
}
