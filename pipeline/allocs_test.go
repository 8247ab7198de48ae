// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package pipeline

import (
	"runtime"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// TestFirstRequestAllocations bounds the memory that the first request of a long conversation allocates. The results
// without the padding before their line numbers take most of it.
func TestFirstRequestAllocations(t *testing.T) {
	for _, f := range []wire.Format{wire.Anthropic, wire.OpenAIChat} {
		raw, begin := firstRequest(t, f, 1<<20), newBeginner(t)
		begin(f, raw) // fills the pools
		const rounds = 4
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range rounds {
			begin(f, raw)
		}
		runtime.ReadMemStats(&after)
		allocs, size := (after.Mallocs-before.Mallocs)/rounds, (after.TotalAlloc-before.TotalAlloc)/rounds
		share := float64(size) / float64(len(raw))
		t.Logf("%s: %d allocations, %.2f of the body's bytes", f, allocs, share)
		if allocs > 6000 || share > 1.7 {
			t.Errorf("%s: got %d allocations and %.2f of the body's bytes, want at most 6000 and 1.70", f, allocs, share)
		}
	}
}
