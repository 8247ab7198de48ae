// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// TestBody compares bodies with random cuts, given in any order, with the same edits made one by one from
// the end.
func TestBody(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		raw := make([]byte, r.IntN(60))
		for i := range raw {
			raw[i] = byte('a' + i%26)
		}
		var cuts []wire.Cut
		for at := 0; at <= len(raw); at += 1 + r.IntN(9) {
			end := min(at+r.IntN(4), len(raw))
			cuts = append(cuts, wire.Cut{Start: int32(at), End: int32(end), With: []byte("INSERTED"[:r.IntN(9)])})
			at = end
		}
		want := bytes.Clone(raw)
		for i := len(cuts) - 1; i >= 0; i-- {
			c := cuts[i]
			want = append(want[:c.Start:c.Start], append(bytes.Clone(c.With), want[c.End:]...)...)
		}
		r.Shuffle(len(cuts), func(i, j int) { cuts[i], cuts[j] = cuts[j], cuts[i] })
		b, err := wire.NewBody(raw, cuts...)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		var parts []byte
		for i := range b.Parts() {
			parts = append(parts, b.Part(i)...)
		}
		if got := b.Bytes(); !bytes.Equal(got, want) || !bytes.Equal(parts, want) || b.Len() != len(want) {
			t.Fatalf("seed %d: got %q, in parts %q, length %d, want %q", seed, got, parts, b.Len(), want)
		}
		longer := append(bytes.Clone(want), '!')
		if !b.Equal(want) || b.Equal(longer) || b.Equal(longer[1:]) != bytes.Equal(want, longer[1:]) {
			t.Fatalf("seed %d: %q: is it the body: %t, and a longer one: %t, and %q: %t", seed, want, b.Equal(want),
				b.Equal(longer), longer[1:], b.Equal(longer[1:]))
		}
	}
	_, err := wire.NewBody([]byte("abcd"), wire.Cut{Start: 2, End: 4}, wire.Cut{Start: 0, End: 3})
	if !errors.Is(err, wire.ErrEdit) {
		t.Errorf("overlapping cuts: got %v, want %v", err, wire.ErrEdit)
	}
}
