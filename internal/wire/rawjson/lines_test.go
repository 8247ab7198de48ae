// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestLineEnd compares the lines of JSON strings with those of the texts in them.
func TestLineEnd(t *testing.T) {
	random := rand.New(rand.NewPCG(62, 1))
	pieces := []string{"\n", "\n\n", `\n`, `\`, `\\`, "n", "x", "some words", `"`, "\t", "é"}
	for range 5000 {
		var text strings.Builder
		for range random.IntN(12) {
			text.WriteString(pieces[random.IntN(len(pieces))])
		}
		quoted, err := json.Marshal(text.String())
		if err != nil {
			t.Fatal(err)
		}
		s := quoted[1 : len(quoted)-1]
		from := 0
		for want := range strings.Lines(text.String()) {
			end := LineEnd(s, from)
			var got string
			if err := json.Unmarshal([]byte(`"`+string(s[from:end])+`"`), &got); err != nil || got != want {
				t.Fatalf("%s from %d: got %q, want %q", s, from, got, want)
			}
			from = end
		}
		if from != len(s) {
			t.Fatalf("%s: the lines end at %d", s, from)
		}
	}
}
