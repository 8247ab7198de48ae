// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
)

func TestMain(m *testing.M) {
	caddy.RegisterModule(MemoryStore{})
	testkit.MainInHome(m)
}
