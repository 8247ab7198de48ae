// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"encoding/json"
	"testing"
)

func TestPaired(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":"\ud83d\ude00"}`:       `{"a":"\ud83d\ude00"}`,
		`{"a":"\ud83d"}`:             `{"a":"\ufffd"}`,
		`{"a":"x \ude00 b"}`:         `{"a":"x \ufffd b"}`,
		`{"a":"\ud83d\ud83d\ude00"}`: `{"a":"\ufffd\ud83d\ude00"}`,
		`{"a":"\\ud83d \n\u00e9"}`:   `{"a":"\\ud83d \n\u00e9"}`,
		`{"a":"\uD83D\u0041"}`:       `{"a":"\ufffd\u0041"}`,
		`{"a":"é"}`:                  `{"a":"é"}`,
	} {
		if got := string(Paired([]byte(in))); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func FuzzPaired(f *testing.F) {
	f.Add(`{"a":"\ud83d\\ud83d\ude00"}`)
	f.Fuzz(func(t *testing.T, text string) {
		out := Paired([]byte(text))
		if again := string(Paired(out)); again != string(out) {
			t.Errorf("%q: got %q, and then %q", text, out, again)
		}
		var before, after any
		if json.Unmarshal([]byte(text), &before) != nil {
			return
		}
		// The standard library reads an unpaired surrogate as the replacement character, too.
		if err := json.Unmarshal(out, &after); err != nil || !equal(before, after) {
			t.Errorf("%q: got %q, %v, want the same value", text, out, err)
		}
	})
}

func equal(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}
