// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package rawjson

import "testing"

func TestDecoded(t *testing.T) {
	for in, want := range map[string]string{
		`a\n\"\\\/\u00e9`:  "a\n\"\\/é",
		`\ud83d\ude00`:     "😀",
		`\ud800x`:          `\ud800x`,
		`\ud83d\u0041`:     `\ud83dA`,
		`plain`:            "plain",
		`\b\f\r\t\u0000\\`: "\b\f\r\t\x00\\",
	} {
		if got := Text(in).Decoded(); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}
