// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli"
)

// wrappedClient is the variable by which this test binary knows that it stands in for a client.
const wrappedClient = "LLM_CACHE_TEST_WRAPPED_CLIENT"

// TestWrappedClient is the client of TestWrap: it asks once and prints what the answer tells.
func TestWrappedClient(t *testing.T) {
	if os.Getenv(wrappedClient) == "" {
		t.Skip("it runs as the client of TestWrap")
	}
	resp, err := http.Post(os.Getenv("ANTHROPIC_BASE_URL")+"/v1/messages", "application/json",
		strings.NewReader(`{"model":"claude-opus-4-6","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	t.Logf("status %d, X-Llm-Cache %q", resp.StatusCode, resp.Header.Get("X-Llm-Cache"))
}

// Requests of a client that has been told a base URL go through llm_cache to that address.
func TestWrap(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a script stands in for the client")
	}
	model := newUpstream(t, answerMessage)
	dir := t.TempDir()
	script := "#!/bin/sh\nexec '" + os.Args[0] + "' -test.run '^TestWrappedClient$' -test.v\n"
	if err := os.WriteFile(filepath.Join(dir, "claude"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	t.Setenv("HOME", dir)
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1") // nothing leaves this machine
	t.Setenv(wrappedClient, "1")
	t.Setenv("ANTHROPIC_BASE_URL", model.URL+"/gateway")
	t.Cleanup(func() { _ = caddy.Stop() })

	cmd := cli.WrapCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs([]string{"claude", "-p", "hi"})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	if !strings.Contains(out.String(), "status 200") || strings.Contains(out.String(), `X-Llm-Cache ""`) {
		t.Errorf("the client got %s, want 200 through llm_cache", out.String())
	}
	if got, want := model.last().path, "/gateway/v1/messages"; got != want {
		t.Errorf("the gateway was asked for %s, want %s", got, want)
	}
}
