// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/caddy"
)

// binary is the Caddy under test, or "" to skip the tests.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	binary = os.Getenv("LLM_CACHE_CADDY")
	if binary == "" && os.Getenv("LLM_CACHE_E2E") == "" {
		return m.Run() // every test is skipped with a reason
	}
	if code, moved := inNamespace(); moved {
		return code
	}
	if binary != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "llm_cache-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "caddy")
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	if err := caddy.Build(ctx, "../..", binary); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// needCaddy skips the test without a Caddy.
func needCaddy(t *testing.T) {
	t.Helper()
	if binary == "" {
		t.Skip("set LLM_CACHE_E2E=1 to build Caddy and test it, or LLM_CACHE_CADDY to the path of a built one")
	}
}

// lacking skips the test for a missing dependency, or fails it in CI, where all must exist.
func lacking(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal("CI lacks what this test needs: " + what)
	}
	t.Skip(what)
}
