// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package httpx_test

import (
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
)

// await waits for something that is bound to happen.
func await(t *testing.T, what string, f func() bool) {
	t.Helper()
	for range 10000 {
		if f() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("waited in vain for %s", what)
}

// TestBackground: a panic where no request waits ends the work, and is counted.
func TestBackground(t *testing.T) {
	count := httpx.BackgroundPanics
	before := testkit.MetricValue(t, count)
	done := make(chan struct{})
	go httpx.Background("testing", func() {
		defer close(done)
		panic("of a test")
	})
	<-done
	if httpx.Background("testing", func() { panic(nil) }) {
		t.Error("a panic is told to have ended well")
	}
	if !httpx.Background("testing", func() {}) {
		t.Error("what ended well is told to have panicked")
	}
	await(t, "both to be counted", func() bool { return testkit.MetricValue(t, count) == before+2 })
}
