// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package lingua

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
)

// BenchmarkEncode runs 512 tokens through the model in the folder LLM_CACHE_LINGUA, see
// docs/numbers/benchmarks.md. It reports the core-seconds of the fastest run, and the resident
// memory after it.
func BenchmarkEncode(b *testing.B) {
	path := os.Getenv("LLM_CACHE_LINGUA")
	if path == "" {
		b.Skip("LLM_CACHE_LINGUA names no model folder")
	}
	best := kernel
	defer func() { kernel = best }()
	for _, kernel = range runnable() {
		for name, o := range map[string]Options{"float32": {}, "int8": {Int8: true}} {
			if kernel.Name == portable.Name {
				continue
			}
			b.Run(strings.ReplaceAll(kernel.Name, " ", "-")+"/"+name, func(b *testing.B) {
				m, err := Open(path, o)
				if err != nil {
					b.Fatal(err)
				}
				defer m.Close()
				tokens := make([]position, window)
				for i := range tokens {
					tokens[i] = position{int32(1000 + 7*i), m.encoder.config.firstPosition() + i}
				}
				fastest := time.Hour
				for b.Loop() {
					before := testkit.ProcessorTime()
					if _, err := m.encoder.logits(context.Background(), tokens); err != nil {
						b.Fatal(err)
					}
					fastest = min(fastest, testkit.ProcessorTime()-before)
				}
				b.ReportMetric(fastest.Seconds(), "core-s")
				debug.FreeOSMemory()
				b.ReportMetric(float64(resident())/1e6, "MB")
				runtime.KeepAlive(m)
			})
		}
	}
}

// resident returns the resident memory of the process, where available.
func resident() int {
	stat, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(stat))
	pages := 0
	for _, c := range fields[1] {
		pages = pages*10 + int(c-'0')
	}
	return pages * os.Getpagesize()
}
