// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package handler

import (
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// TestAllocations bounds what the handler allocates for a request of a known conversation, over
// what the same request takes without it; a tenth more than measured. Bytes are those beyond the body.
func TestAllocations(t *testing.T) {
	for _, test := range []struct {
		size   int
		allocs float64
		bytes  uint64
	}{{2 << 10, 43, 10 << 10}, {200 << 10, 43, 14 << 10}, {1 << 20, 43, 21 << 10}} {
		t.Run(fmt.Sprintf("%d KB", test.size>>10), func(t *testing.T) {
			const steps, sessions = 16, 24
			bodies := growing(test.size, steps)
			bareAllocs, bareBytes := spent(bodies, 0, sessions, endpoint.ServeHTTP)
			h := attached(t, pipeline.Options{Policy: pipeline.CostAware})
			serve := func(w http.ResponseWriter, r *http.Request) error { return h.ServeHTTP(w, r, endpoint) }
			spent(bodies, 0, sessions, serve) // fills the pools
			allocs, bytes := spent(bodies, sessions, 2*sessions, serve)
			allocs, bytes = allocs-bareAllocs, bytes-bareBytes
			t.Logf("%.1f allocations, %d bytes", allocs, bytes)
			if allocs > test.allocs || bytes > test.bytes {
				t.Errorf("%.1f allocations and %d bytes a request, not %.0f and %d", allocs, bytes, test.allocs, test.bytes)
			}
		})
	}
}

// spent returns what the requests that continue conversations of new sessions allocate, each.
func spent(
	bodies [][]byte, from, to int, serve func(http.ResponseWriter, *http.Request) error,
) (allocs float64, bytes uint64) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var before, after runtime.MemStats
	var mallocs uint64
	n := 0
	for s := from; s < to; s++ {
		for i, body := range bodies {
			r := request(body, strconv.Itoa(s))
			runtime.ReadMemStats(&before)
			if err := serve(&sink{http.Header{}}, r); err != nil {
				panic(err)
			}
			runtime.ReadMemStats(&after)
			if i > 0 {
				mallocs += after.Mallocs - before.Mallocs
				bytes += after.TotalAlloc - before.TotalAlloc
				n++
			}
		}
	}
	return float64(mallocs) / float64(n), bytes / uint64(n)
}
