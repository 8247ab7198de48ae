// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"math/rand/v2"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// TestIndex: the index finds a line in the same blocks as a check of each block, false positives
// included.
func TestIndex(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var x ReferenceIndex
	var traits []sessioncache.Trait
	var lines []uint64
	for i := range 300 {
		own := make([]uint64, r.IntN(90)) // may be none
		for j := range own {
			own[j] = r.Uint64()
		}
		traits = append(traits, newTrait([]uint64{uint64(i)}[:i%2], own))
		x.Add(traits[i], i)
		lines = append(lines, own[:min(len(own), 5)]...)
	}
	held := 0
	for _, line := range append(lines, 0, 1, 1<<63) {
		found := map[int]int{}
		x.Holding(line, func(id int) { found[id]++ })
		for i, trait := range traits {
			if n := HeldLines(trait, []uint64{line}); n != found[i] {
				t.Fatalf("line %x: block %d holds it %d times, found %d times", line, i, n, found[i])
			} else {
				held += n
			}
		}
	}
	if held < len(lines) || x.Shelves() < 300/64 {
		t.Errorf("%d of %d lines are held, on %d shelves", held, len(lines), x.Shelves())
	}
}
