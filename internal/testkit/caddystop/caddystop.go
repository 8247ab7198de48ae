// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package caddystop stops the Caddy of the process, see caddytest for others.
package caddystop

import (
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit/caddytest"
)

// Stop stops Caddy, and waits for requests that outlast its grace period.
func Stop(t testing.TB) {
	t.Helper()
	open := state.Open(shared.Process)
	if err := caddy.Stop(); err != nil {
		t.Error(err)
	}
	// A configuration loaded while they run would share their sessions.
	caddytest.Await(t, open)
}
