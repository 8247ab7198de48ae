// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

func TestMemoryStoreLimits(t *testing.T) {
	for _, m := range []MemoryStore{{IdleTTL: 1}, {IdleTTL: -1}} {
		if err := m.Provision(caddy.Context{}); err == nil {
			t.Errorf("%+v was accepted", m)
		}
	}
	m := new(MemoryStore)
	if err := m.Provision(caddy.Context{}); err != nil || m.IdleTTL != caddy.Duration(sessioncache.DefaultIdleTTL) {
		t.Errorf("defaults are %+v, %v", m, err)
	}
}
