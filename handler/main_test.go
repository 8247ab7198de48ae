// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/caddyhome"
)

func TestMain(m *testing.M) { caddyhome.Main(m) }
