// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
)

func TestMain(m *testing.M) { testkit.MainInHome(m) }
