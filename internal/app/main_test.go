// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive/pinger"
)

func TestMain(m *testing.M) {
	caddy.RegisterModule(MemoryStore{})
	caddy.RegisterModule(pinger.Limits{})
	testkit.MainInHome(m)
}
