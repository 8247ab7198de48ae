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
		hashes := make([]uint64, r.IntN(90)) // may be none
		for j := range hashes {
			hashes[j] = r.Uint64()
		}
		traits = append(traits, newTrait([]uint64{uint64(i)}[:i%2], hashes))
		x.Add(traits[i], i)
		lines = append(lines, hashes[:min(len(hashes), 5)]...)
	}
	contained := 0
	for _, line := range append(lines, 0, 1, 1<<63) {
		found := map[int]int{}
		x.Containing(line, func(id int) { found[id]++ })
		for i, trait := range traits {
			if n := CountMatches(trait, []uint64{line}); n != found[i] {
				t.Fatalf("line %x: block %d holds it %d times, found %d times", line, i, n, found[i])
			} else {
				contained += n
			}
		}
	}
	if contained < len(lines) || x.Shelves() < 300/64 {
		t.Errorf("%d of %d lines are held, on %d shelves", contained, len(lines), x.Shelves())
	}
}
