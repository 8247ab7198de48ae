// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"bytes"
	"strings"
	"testing"
)

// A body that is not the one of the snapshot costs the edit, no more.
func TestRecipeOfAnotherBody(t *testing.T) {
	body := []byte(`"` + strings.Repeat("     1→one line of many\\n", 50) + `"`)
	for _, value := range []string{
		string(body[:600]), string(unpadded(body)), `"[note]\n` + string(body[100:400]) + `[more]"`, `""`, string(body),
		`"` + strings.Repeat("1→one line of many\\n", 50) + `"`,
	} {
		recipe := MakeRecipe([]byte(value), body)
		if got, ok := CookRecipe(recipe, body); !ok || string(got) != value {
			t.Errorf("%q is made of %x: %q", value, recipe, got)
		}
		if len(recipe) > 100 {
			t.Errorf("%d bytes for %q", len(recipe), value)
		}
		if len(value) < minPiece {
			continue
		}
		if got, ok := CookRecipe(recipe, bytes.ToUpper(body)); ok {
			t.Errorf("made of another body: %q", got)
		}
	}
	if r := MakeRecipe(bytes.Repeat([]byte("foreign "), 1000), body); len(r) != 0 {
		t.Errorf("%d bytes of recipe for what is not of the body", len(r))
	}
}

// FuzzRecipe: a recipe yields its value again, and no invalid recipe does harm.
func FuzzRecipe(f *testing.F) {
	f.Add([]byte(`"some text of a block, which is long enough"`), []byte(`"of a block, which is long"`),
		[]byte{1, 2, 3, 4, 0, 7, 0})
	f.Add([]byte(`"a piece of text, often"`), bytes.Repeat([]byte("a piece of text, often; "), 400), []byte{})
	f.Fuzz(func(t *testing.T, body, value, recipe []byte) {
		CookRecipe(recipe, body)
		r := MakeRecipe(value, body)
		if got, ok := CookRecipe(r, body); len(r) > 0 && (!ok || !bytes.Equal(got, value)) {
			t.Fatalf("%q of %q: %q", value, body, got)
		}
	})
}
