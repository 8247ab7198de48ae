// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package idlefold

import (
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/clock"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// A fold that panics ends without further effects: it releases the store, and the process
// continues.
func TestFoldPanics(t *testing.T) {
	panics := httpx.BackgroundPanics
	before := testkit.MetricValue(t, panics)
	for round := range 2 {
		store, err := sessioncache.New(sessioncache.Options{})
		if err != nil {
			t.Fatal(err)
		}
		share, err := state.PoolOf(shared.Process).Share("folds",
			func() (*state.State, error) { return state.New(shared.Process, store, nil, clock.Machine), nil })
		if err != nil {
			t.Fatal(err)
		}
		s := share.Of
		s.Sender.Use(nil)
		// the fold's plan is missing
		(&Fold{site: &Site{Options: &Options{}, State: s, Log: zap.NewNop(), Now: time.Now}}).Start()
		await(t, "the panic", func() bool { return testkit.MetricValue(t, panics) == before+float64(round+1) })
		if err := share.Release(); err != nil || s.Pin() {
			t.Errorf("%v; a fold keeps the store open", err)
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
