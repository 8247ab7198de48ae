// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// window is the number of tokens that a model processes at once, the two around a chunk included.
const window = 512

// Options configure the running of a model.
type Options struct {
	// Int8 keeps the weights in 8 bits. That takes a quarter of the memory and, on CPUs with
	// suitable instructions, a fraction of the time. Results differ slightly.
	Int8 bool
	// Threads is the number of cores for one run. Default: 1.
	Threads int
}

// Model is a token classifier with its tokenizer. It is safe for concurrent use.
type Model struct {
	tokenizer *Tokenizer
	encoder   *encoder
	// added are the tokenizer's added tokens, and the names of forced tokens.
	added addedTokens
	// forcedNames are the names of forced tokens with ids after the vocabulary.
	forcedNames []string
	int8        bool
}

// Open reads a model from a folder with config.json, tokenizer.json and model.safetensors.
// model.safetensors stays open until the model is closed, and must not be changed.
func Open(folder string, o Options) (*Model, error) {
	c, t, err := describe(folder)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", folder, err)
	}
	e, err := newEncoder(c, filepath.Join(folder, "model.safetensors"), o)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", folder, err)
	}
	if n := len(t.vocabulary); n > e.words.Shape[0] {
		_ = e.file.Close()
		return nil, fmt.Errorf("model %s: tokenizer.json has %d tokens, the model embeddings for %d", folder, n,
			e.words.Shape[0])
	}
	added, names := t.withForced()
	return &Model{t, e, added, names, o.Int8}, nil
}

// withForced returns the added tokens plus the names for forced tokens, and those names that are
// not in the vocabulary.
func (t *Tokenizer) withForced() (addedTokens, []string) {
	tokens := slices.Clone(t.added.tokens)
	var names []string
	for i := range maxForced {
		name := fmt.Sprintf("[NEW%d]", i)
		if _, ok := t.ids[name]; ok {
			continue
		}
		tokens = append(tokens, addedToken{ID: int32(len(t.vocabulary) + len(names)), Content: name, Special: true})
		names = append(names, name)
	}
	return newAddedTokens(tokens), names
}

// Check validates a model folder without reading the weights.
func Check(folder string) error {
	c, _, err := describe(folder)
	if err != nil {
		return fmt.Errorf("model %s: %w", folder, err)
	}
	path := filepath.Join(folder, "model.safetensors")
	w, file, err := openWeights(path)
	if err != nil {
		return fmt.Errorf("model %s: %w", folder, err)
	}
	defer file.Close()
	for _, name := range []string{c.prefix() + "embeddings.word_embeddings.weight", "classifier.weight"} {
		if _, err := w.tensor(name, 0, c.Hidden); err != nil {
			return fmt.Errorf("model %s: %s: %w", folder, path, err)
		}
	}
	return nil
}

func describe(folder string) (config, *Tokenizer, error) {
	b, err := readBounded(filepath.Join(folder, "config.json"), 1<<20)
	if err != nil {
		return config{}, nil, err
	}
	c, err := parseConfig(b)
	if err != nil {
		return c, nil, fmt.Errorf("config.json: %w", err)
	}
	if b, err = readBounded(filepath.Join(folder, "tokenizer.json"), 64<<20); err != nil {
		return c, nil, err
	}
	t, err := ParseTokenizer(b)
	if err != nil {
		return c, nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	if t.family != c.Family {
		return c, nil, fmt.Errorf("tokenizer.json is one of %s, config.json says %s", t.family, c.Family)
	}
	return c, t, nil
}

func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // the operator names the folder
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s: more than %d bytes", path, limit)
	}
	return b, nil
}

// Close closes the model's files. No run may be in progress.
func (m *Model) Close() error { return m.encoder.file.Close() }

// Family is the family of the model.
func (m *Model) Family() Family { return m.encoder.config.Family }

// Device names the instruction set and the width of the weights.
func (m *Model) Device() string {
	if m.int8 {
		return "CPU, " + kernel.Name + ", int8"
	}
	return "CPU, " + kernel.Name + ", float32"
}

// keep returns, for each token except padding, the probability that it matters.
func (m *Model) keep(ctx context.Context, tokens []Token) ([]Token, []float32, error) {
	c, rows := m.encoder.config, m.encoder.words.Shape[0]
	seen, places := make([]Token, 0, len(tokens)), make([]position, 0, len(tokens))
	next := c.firstPosition()
	// As in the reference, a token named [PAD] is padding everywhere, and takes a position.
	for _, t := range tokens {
		p := position{t.ID, next}
		if int(t.ID) >= rows {
			p.id = m.tokenizer.unknown // a forced token without an embedding
		}
		if m.Family() == XLMRoberta && t.ID == c.pad() {
			p.place = int(t.ID)
		} else {
			next++
		}
		if t.Text != padding {
			seen, places = append(seen, t), append(places, p)
		}
	}
	logits, err := m.encoder.logits(ctx, places)
	return seen, keeping(logits), err
}
