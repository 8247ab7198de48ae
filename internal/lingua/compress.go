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

// Compression says what of a text is to be kept.
type Compression struct {
	// Rate is the part of the tokens to keep, over 0 and up to 1. Default: 0.5.
	Rate float64
	// Tokens, if set, is the number of tokens to keep, instead of a rate.
	Tokens int
	// Force are strings to keep wherever they stand, up to 100.
	Force []string
	// KeepDigits favours words with digits.
	KeepDigits bool
	// DropConsecutive keeps one of several forced strings in a row.
	DropConsecutive bool
	// FirstToken goes by the first token of a word, not by the mean of all.
	FirstToken bool
	// Ends are the tokens behind which a text that is too long for the model
	// is cut. Default: "." and "\n".
	Ends []string
}

// Word is a word of a text, and whether it was kept.
type Word struct {
	Text string
	Keep bool
	// Probability is how likely it is to matter, by the model.
	Probability float64
}

// Result is what became of a text.
type Result struct {
	Text  string
	Words []Word
	// Before and After are numbers of tokens, by cl100k_base.
	Before, After int
}

// Compress drops from a text the words that matter least, word for word as
// LLMLingua-2's reference does. White space is not among what it keeps,
// unless it is forced.
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

// score returns the words of a chunk with what the model thinks of them.
func (m *Model) score(ctx context.Context, chunk string, f forced, o Compression) ([]word, error) {
	t := m.tokenizer
	// The reference names both ends as BERT does. To XLM-RoBERTa they are
	// unknown.
	first, last := Token{t.id("[CLS]"), "[CLS]"}, Token{t.id("[SEP]"), "[SEP]"}
	tokens := append(append([]Token{first}, m.tokens(chunk)...), last)
	// It looks ids up by what stands in the text, so that an added token is
	// unknown that took white space in.
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

// drop says of each word of a chunk whether it stays.
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

// dropRepeated takes the worth from forced words that follow one like them
// with nothing in between that is likely to stay.
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
