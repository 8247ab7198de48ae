// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// Family is the kind of base model. It decides how tokens form words.
type Family string

// The supported families.
const (
	BERT       Family = "bert"
	XLMRoberta Family = "xlm-roberta"
)

// Token is a piece of a text with its id.
type Token struct {
	ID int32
	// Text is the piece as the tokenizer names it. For unknown pieces of a Unigram model it is the
	// original text.
	Text string
}

// Tokenizer splits texts as configured by a model's tokenizer.json. It is safe for concurrent use.
type Tokenizer struct {
	family     Family
	vocabulary []string
	ids        map[string]int32
	unknown    int32
	added      addedTokens
	prefix     string
	cleanup    bool

	mu    sync.Mutex
	split func(dst []Token, s string) []Token
}

// Tokens returns the tokens of a text, including added tokens in it. It adds no special tokens
// around the text.
func (t *Tokenizer) Tokens(s string) []Token {
	return t.tokens(s, t.added)
}

func (t *Tokenizer) tokens(s string, added addedTokens) []Token {
	t.mu.Lock()
	defer t.mu.Unlock()
	s = strings.ToValidUTF8(s, "\ufffd")
	dst := make([]Token, 0, len(s)/3+4)
	added.split(s,
		func(s string) { dst = t.split(dst, s) },
		func(t Token) { dst = append(dst, t) })
	return dst
}

// id returns the id of a token by name, the unknown token's id for other names.
func (t *Tokenizer) id(name string) int32 {
	if id, ok := t.ids[name]; ok {
		return id
	}
	return t.unknown
}

type tokenizerFile struct {
	AddedTokens  []addedToken    `json:"added_tokens"`
	Normalizer   json.RawMessage `json:"normalizer"`
	PreTokenizer json.RawMessage `json:"pre_tokenizer"`
	Decoder      json.RawMessage `json:"decoder"`
	Model        json.RawMessage `json:"model"`
}

// ParseTokenizer reads a tokenizer.json: WordPiece after a BertNormalizer, or Unigram after a
// precompiled character map.
func ParseTokenizer(b []byte) (*Tokenizer, error) {
	var f tokenizerFile
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, err
	}
	var kind struct {
		Type string `json:"type"`
	}
	if len(f.Model) == 0 {
		return nil, errors.New("has no model")
	}
	if err := json.Unmarshal(f.Model, &kind); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	var t *Tokenizer
	var err error
	switch kind.Type {
	case "WordPiece":
		t, err = f.wordPiece()
	case "Unigram":
		t, err = f.unigram()
	default:
		err = fmt.Errorf("model of type %q: WordPiece and Unigram are understood", kind.Type)
	}
	if err != nil {
		return nil, err
	}
	return t, t.add(f.AddedTokens)
}

func (t *Tokenizer) add(tokens []addedToken) error {
	for _, a := range tokens {
		switch {
		case a.Content == "":
			return errors.New("added token is empty")
		case a.SingleWord:
			return fmt.Errorf("added token %q: single_word is not understood", a.Content)
		case a.Normalized:
			return fmt.Errorf("added token %q: normalized is not understood", a.Content)
		case a.ID < 0 || int(a.ID) > len(t.vocabulary)+maxAdded:
			return fmt.Errorf("added token %q: id %d is out of range", a.Content, a.ID)
		}
		// Added tokens may have ids after the vocabulary.
		for int(a.ID) >= len(t.vocabulary) {
			t.vocabulary = append(t.vocabulary, "")
		}
		t.vocabulary[a.ID] = a.Content
		t.ids[a.Content] = a.ID
	}
	t.added = newAddedTokens(tokens)
	return nil
}

// maxAdded bounds the distance of added tokens' ids from the end of the vocabulary.
const maxAdded = 1024

func (f *tokenizerFile) wordPiece() (*Tokenizer, error) {
	var m struct {
		Unknown  string           `json:"unk_token"`
		Prefix   *string          `json:"continuing_subword_prefix"`
		MaxRunes *int             `json:"max_input_chars_per_word"`
		Vocab    map[string]int32 `json:"vocab"`
	}
	if err := json.Unmarshal(f.Model, &m); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	w := &wordPiece{
		normalizer: bertNormalizer{Clean: true, Chinese: true, Lowercase: true}, ids: m.Vocab, prefix: "##",
		maxRunes: 100,
	}
	if m.Prefix != nil {
		w.prefix = *m.Prefix
	}
	if m.MaxRunes != nil {
		w.maxRunes = *m.MaxRunes
	}
	vocabulary, err := byID(m.Vocab)
	if err != nil {
		return nil, err
	}
	id, ok := m.Vocab[m.Unknown]
	if !ok {
		return nil, fmt.Errorf("vocabulary lacks the unknown token %q", m.Unknown)
	}
	w.unknown = Token{id, m.Unknown}
	if err := typed(f.Normalizer, "normalizer", "BertNormalizer", &w.normalizer); err != nil {
		return nil, err
	}
	if err := typed(f.PreTokenizer, "pre_tokenizer", "BertPreTokenizer", nil); err != nil {
		return nil, err
	}
	d := struct {
		Prefix  string `json:"prefix"`
		Cleanup bool   `json:"cleanup"`
	}{"##", true}
	if err := typed(f.Decoder, "decoder", "WordPiece", &d); err != nil {
		return nil, err
	}
	return &Tokenizer{
		family: BERT, vocabulary: vocabulary, ids: m.Vocab, unknown: id,
		prefix: d.Prefix, cleanup: d.Cleanup, split: w.tokens,
	}, nil
}

func byID(vocab map[string]int32) ([]string, error) {
	if len(vocab) == 0 {
		return nil, errors.New("vocabulary is empty")
	}
	names := make([]string, len(vocab))
	for s, id := range vocab {
		if id < 0 || int(id) >= len(names) {
			return nil, fmt.Errorf("vocabulary: id %d of %q is out of range", id, s)
		}
		names[id] = s
	}
	return names, nil
}

func (f *tokenizerFile) unigram() (*Tokenizer, error) {
	var m struct {
		Unknown      *int32  `json:"unk_id"`
		Vocab        []piece `json:"vocab"`
		ByteFallback bool    `json:"byte_fallback"`
	}
	if err := json.Unmarshal(f.Model, &m); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	switch {
	case m.ByteFallback:
		return nil, errors.New("model: byte_fallback is not understood")
	case m.Unknown == nil || *m.Unknown < 0 || int(*m.Unknown) >= len(m.Vocab):
		return nil, errors.New("model: unk_id is missing or out of range")
	}
	u := &unigram{unknown: *m.Unknown, ids: make(map[string]int32, len(m.Vocab)), scores: make([]float64, len(m.Vocab))}
	vocabulary := make([]string, len(m.Vocab))
	for i, p := range m.Vocab {
		vocabulary[i], u.scores[i] = p.text, p.score
		u.ids[p.text] = int32(i)
	}
	u.lexicon, u.minScore = newLexicon(vocabulary), lowest(u.scores)
	if err := u.readNormalizer(f.Normalizer); err != nil {
		return nil, err
	}
	if err := u.readPreTokenizer(f.PreTokenizer); err != nil {
		return nil, err
	}
	if err := typed(f.Decoder, "decoder", "Metaspace", nil); err != nil {
		return nil, err
	}
	return &Tokenizer{family: XLMRoberta, vocabulary: vocabulary, ids: u.ids, unknown: u.unknown, split: u.tokens}, nil
}

// piece is an entry of a Unigram vocabulary: ["▁the", -3.4].
type piece struct {
	text  string
	score float64
}

func (p *piece) UnmarshalJSON(b []byte) error {
	pair := [2]any{&p.text, &p.score}
	var n []json.RawMessage
	if err := json.Unmarshal(b, &n); err != nil || len(n) != 2 {
		return errors.New("an entry of the vocabulary is not a piece and its score")
	}
	return json.Unmarshal(b, &pair)
}

func (u *unigram) readNormalizer(raw json.RawMessage) error {
	if absent(raw) {
		return nil
	}
	var n struct {
		Type        string            `json:"type"`
		Charsmap    []byte            `json:"precompiled_charsmap"`
		Normalizers []json.RawMessage `json:"normalizers"`
		Content     string            `json:"content"`
		Pattern     struct {
			Regex string
		} `json:"pattern"`
	}
	if err := json.Unmarshal(raw, &n); err != nil {
		return fmt.Errorf("normalizer: %w", err)
	}
	switch {
	case n.Type == "Precompiled" && !u.squeeze:
		var err error
		if u.charsmap, err = newCharsmap(n.Charsmap); err != nil {
			return fmt.Errorf("normalizer: %w", err)
		}
	case n.Type == "Replace" && n.Pattern.Regex == " {2,}" && n.Content == " ":
		u.squeeze = true
	case n.Type == "Sequence":
		for _, one := range n.Normalizers {
			if err := u.readNormalizer(one); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("normalizer of type %q: Precompiled, and Replace of several spaces by one behind it, are "+
			"understood", n.Type)
	}
	return nil
}

func (u *unigram) readPreTokenizer(raw json.RawMessage) error {
	type part struct {
		Type    string `json:"type"`
		Mark    string `json:"replacement"`
		Prepend *bool  `json:"add_prefix_space"`
		Scheme  string `json:"prepend_scheme"`
		Split   *bool  `json:"split"`
	}
	var p struct {
		part
		Parts []part `json:"pretokenizers"`
	}
	if absent(raw) {
		return errors.New("pre_tokenizer is missing")
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return fmt.Errorf("pre_tokenizer: %w", err)
	}
	parts := p.Parts
	if p.Type != "Sequence" {
		parts = []part{p.part}
	}
	// Without WhitespaceSplit, only spaces separate words.
	u.whole = len(parts) == 1
	for i, one := range parts {
		space := one.Type == "WhitespaceSplit" && i == 0 && len(parts) == 2
		meta := one.Type == "Metaspace" && i == len(parts)-1 && i < 2 && one.Mark == metaspace &&
			(one.Split == nil || *one.Split) && (one.Scheme == "always" || one.Scheme == "" &&
			(one.Prepend == nil || *one.Prepend))
		if !space && !meta {
			return fmt.Errorf("pre_tokenizer of type %q is not understood here", one.Type)
		}
	}
	if len(parts) == 0 {
		return errors.New("pre_tokenizer is missing")
	}
	return nil
}

func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// typed reads a part of the file and checks its type.
func typed(raw json.RawMessage, name, want string, into any) error {
	var kind struct {
		Type string `json:"type"`
	}
	if absent(raw) {
		return fmt.Errorf("%s is missing", name)
	}
	if err := json.Unmarshal(raw, &kind); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if kind.Type != want {
		return fmt.Errorf("%s of type %q: %s is understood", name, kind.Type, want)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
