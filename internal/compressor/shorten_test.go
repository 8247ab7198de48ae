// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package compressor

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lingua"
)

// rule keeps every second word, or uses words. It replaces a model where the choice of words
// matters.
type rule struct {
	err   error
	words func(text string) []lingua.Word
	calls []string
}

func (r *rule) Health(context.Context) Health { return Health{Device: "rule"} }

func (r *rule) Compress(_ context.Context, text string, _ float64) (lingua.Result, error) {
	r.calls = append(r.calls, text)
	if r.err != nil {
		return lingua.Result{}, r.err
	}
	if r.words != nil {
		return lingua.Result{Words: r.words(text)}, nil
	}
	return lingua.Result{Words: everySecond(text)}, nil
}

func everySecond(text string) (words []lingua.Word) {
	for i, w := range strings.Fields(text) {
		words = append(words, lingua.Word{Text: w, Keep: i%2 == 1})
	}
	return words
}

// TestShorten compares shortened texts.
func TestShorten(t *testing.T) {
	pad := strings.Repeat(paragraph, 3)
	short := func(c Compressor, text string) string {
		t.Helper()
		got, err := Shorten(context.Background(), c, text, 0.5, 200)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	const half = "committee on long rainy and not on that and they home without word it.\n"
	if got, want := short(new(rule), pad), strings.Repeat(half, 1); !strings.HasPrefix(got, want) {
		t.Errorf("got %q", got)
	}
	code := "```sh\nmake   all  &&  make install of the things that matter here\n```\n"
	page := "## The meeting\n\n" + pad + "\n" + code +
		"\n  1. an item that stands here with the words /src/a.go and 42 in its middle\n"
	got := short(new(rule), page)
	for _, want := range []string{"## The meeting\n\n", "\n\n" + code + "\n  ", "/src/a.go", " 42 "} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if strings.Count(got, "\n") != strings.Count(page, "\n") {
		t.Errorf("lines are joined: %q", got)
	}
	if again := short(new(rule), page); again != got {
		t.Error("a text is not always shortened alike")
	}
	all := &rule{words: func(text string) (words []lingua.Word) {
		for w := range strings.FieldsSeq(text) {
			words = append(words, lingua.Word{Text: w, Keep: true})
		}
		return words
	}}
	unknown := &rule{words: func(string) []lingua.Word { return []lingua.Word{{Text: "elsewhere"}, {}} }}
	pieces := &rule{words: func(text string) (words []lingua.Word) { // as a tokenizer cuts them, in lower case
		for i, w := range strings.Fields(strings.ToLower(text)) {
			bare := strings.TrimRight(w, ".,")
			words = append(words, lingua.Word{Text: bare, Keep: i%2 == 1})
			if bare != w {
				words = append(words, lingua.Word{Text: w[len(bare):]})
			}
		}
		return words
	}}
	for name, c := range map[string]*rule{
		"all words are kept": all, "words are unknown": unknown,
		"no words": {words: func(string) []lingua.Word { return nil }},
	} {
		if got := short(c, pad); got != "" {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if got := short(pieces, pad); !strings.HasPrefix(got, "committee on long rainy") {
		t.Errorf("in pieces: got %q", got)
	}
	long := new(rule)
	if got := short(long, strings.Repeat(paragraph, longestText/len(paragraph)+1)); got != "" || len(long.calls) > 0 {
		t.Errorf("a text that is too long: got %q, %d calls", got, len(long.calls))
	}
	if _, err := Shorten(context.Background(), &rule{err: errors.New("gone")}, pad, 0.5, 200); err == nil {
		t.Error("no error")
	}
	var real Compressor = embedded(t)
	if got := short(real, pad); got == "" || len(got) > len(pad)*9/10 {
		t.Errorf("a model makes %q", got)
	}
}

// TestKeptOfSignsThatShrink: runes with a lower case of another length are words like others.
func TestKeptOfSignsThatShrink(t *testing.T) {
	const kelvin = "\u212a" // three bytes, and one in lower case
	for _, text := range []string{kelvin + " k", "the " + kelvin, kelvin + kelvin + " and kk"} {
		keep := kept(text, everySecond(text))
		if len(keep) != len(text) || keep[0] != stays(strings.Fields(text)[0]) {
			t.Errorf("%q: %v", text, keep)
		}
	}
}

// FuzzShorten: the output has words of the text in their order.
func FuzzShorten(f *testing.F) {
	f.Add(paragraph, uint8(1))
	f.Add("é è "+paragraph+"```\ncode\n"+paragraph, uint8(3))
	f.Fuzz(func(t *testing.T, text string, n uint8) {
		r := &rule{words: func(text string) (words []lingua.Word) {
			for i, w := range strings.Fields(text) {
				words = append(words, lingua.Word{Text: w[:1+i%len(w)], Keep: i%(int(n)+1) == 0})
			}
			return words
		}}
		got, err := Shorten(context.Background(), r, text, 0.5, 1)
		if err != nil {
			t.Fatal(err)
		}
		rest := strings.Fields(text)
		for w := range strings.FieldsSeq(got) {
			for len(rest) > 0 && rest[0] != w {
				rest = rest[1:]
			}
			if len(rest) == 0 {
				t.Fatalf("%q is none of the words, or out of order", w)
			}
			rest = rest[1:]
		}
	})
}
