// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package idlefold

import (
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/selfrequest"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
)

// A fold that panics ends without further effects: it releases the store, and the process
// continues.
func TestFoldPanics(t *testing.T) {
	carrier := new(selfrequest.Carrier)
	carrier.Use(nil)
	defer carrier.Stop()
	var pins atomic.Int32
	over := make(chan struct{})
	site := &Site{
		Options: &Options{}, Carrier: carrier, Log: zap.NewNop(), Now: time.Now,
		Pin:   func() bool { return pins.Add(1) > 0 },
		Unpin: func() error { pins.Add(-1); over <- struct{}{}; return nil },
	}
	panics := httpx.BackgroundPanics
	before := testkit.MetricValue(t, panics)
	for round := range 2 {
		(&Fold{site: site}).Start() // the fold's plan is missing
		<-over
		await(t, "the panic", func() bool { return testkit.MetricValue(t, panics) == before+float64(round+1) })
		if n := pins.Load(); n != 0 {
			t.Errorf("%d folds keep the store open", n)
		}
	}
}

// await waits for a condition that must come true.
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
