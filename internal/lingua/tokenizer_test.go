// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lingua/cl100k"
)

func tokenizer(t testing.TB, family string) *Tokenizer {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(folder(family), "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := ParseTokenizer(b)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestTokens compares both tokenizers, and the count of cl100k tokens, with Hugging Face's and
// OpenAI's for the same texts.
func TestTokens(t *testing.T) {
	want := golden[struct {
		Texts []string
		Count []int
		BERT  [][]int32
		XLMR  [][]int32
	}](t, "tokens.json.gz")
	ids := map[string][][]int32{"bert": want.BERT, "xlmr": want.XLMR}
	for _, family := range families {
		tok := tokenizer(t, family)
		for i, text := range want.Texts {
			var got []int32
			for _, token := range tok.Tokens(text) {
				got = append(got, token.ID)
			}
			if !slices.Equal(got, ids[family][i]) {
				t.Errorf("%s: %q:\n got %v\nwant %v", family, text, got, ids[family][i])
			}
		}
	}
	for i, text := range want.Texts {
		if n := cl100k.Count(text); n != want.Count[i] {
			t.Errorf("cl100k: %q: %d tokens, want %d", text, n, want.Count[i])
		}
	}
}
