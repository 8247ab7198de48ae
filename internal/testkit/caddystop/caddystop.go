// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package caddystop stops the Caddy of a test.
package caddystop

import (
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
)

// Stop stops Caddy, and waits for requests that outlast its grace period.
func Stop(t testing.TB) {
	t.Helper()
	open := state.Open()
	if err := caddy.Stop(); err != nil {
		t.Error(err)
	}
	// A configuration loaded while they run would share their sessions.
	end := time.Now().Add(5 * time.Second)
	for _, s := range open {
		for s.Pin() {
			s.Unpin()
			if time.Now().After(end) {
				t.Log("a request goes on after its Caddy")
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
}
