// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCompress compares words, labels and texts with those of the reference.
func TestCompress(t *testing.T) {
	cases := golden[[]struct {
		Family  string
		Text    string
		Options struct {
			Rate            float64
			TargetToken     int      `json:"target_token"`
			TokenToWord     string   `json:"token_to_word"`
			ForceTokens     []string `json:"force_tokens"`
			KeepDigits      bool     `json:"force_reserve_digit"`
			DropConsecutive bool     `json:"drop_consecutive"`
		}
		Output        string
		Words         []string
		Labels        string
		Before, After int
	}](t, "compress.json.gz")
	if len(cases) < 240 {
		t.Fatalf("%d cases", len(cases))
	}
	label := map[bool]byte{false: '0', true: '1'}
	models := map[string]*Model{}
	for _, family := range families {
		models[family] = open(t, family, Options{})
	}
	for i, c := range cases {
		if testing.Short() && i%4 != 0 {
			continue
		}
		b, err := os.ReadFile(filepath.Join("testdata", "texts", c.Text+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		o := c.Options
		got, err := models[c.Family].Compress(context.Background(), string(b), Compression{
			Rate: o.Rate, Tokens: o.TargetToken, Force: o.ForceTokens, KeepDigits: o.KeepDigits,
			DropConsecutive: o.DropConsecutive, FirstToken: o.TokenToWord == "first",
		})
		if err != nil {
			t.Fatal(err)
		}
		var words []string
		var labels strings.Builder
		for _, w := range got.Words {
			words = append(words, w.Text)
			labels.WriteByte(label[w.Keep])
		}
		switch {
		case !slices.Equal(words, c.Words):
			t.Errorf("%s %s %+v: words\n got %q\nwant %q", c.Family, c.Text, o, words, c.Words)
		case labels.String() != c.Labels:
			t.Errorf("%s %s %+v: labels\n got %s\nwant %s", c.Family, c.Text, o, labels.String(), c.Labels)
		case got.Text != c.Output:
			t.Errorf("%s %s %+v: text\n got %q\nwant %q", c.Family, c.Text, o, got.Text, c.Output)
		case got.Before != c.Before || got.After != c.After:
			t.Errorf("%s %s %+v: %d to %d tokens, want %d to %d", c.Family, c.Text, o, got.Before, got.After, c.Before, c.After)
		}
	}
}
