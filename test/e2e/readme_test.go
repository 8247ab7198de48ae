// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/caddy"
)

// firstCommand is the README's command for newcomers.
const firstCommand = "go run ./cmd/caddy run --config Caddyfile.example"

// The first command of the README starts a Caddy that answers both formats without a model, reports
// its work, and logs no key.
func TestFirstCommand(t *testing.T) {
	needCaddy(t)
	if !isolated {
		lacking(t, "a network namespace: Caddyfile.example uses fixed ports")
	}
	const key = "sk-not-to-be-logged"
	dir, words := t.TempDir(), strings.Fields(firstCommand)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = "../.."
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "LLM_UPSTREAM=") }),
		"XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	p, err := caddy.Run(ctx, cmd, "localhost:2019", filepath.Join(dir, "caddy.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		b, err := os.ReadFile(p.LogFile)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte(key)) {
			t.Error("the log holds a key")
		}
		for _, want := range []string{"serving agents", `"http://127.0.0.1:4000"`} {
			if !bytes.Contains(b, []byte(want)) {
				t.Errorf("the log lacks %q, by which a user finds the address", want)
			}
		}
		if bytes.Contains(b, []byte("requires TLS")) {
			t.Error("the log warns of protocols that the example does not need")
		}
	}()

	const (
		messages = `{"model":"claude-sonnet-4-5","max_tokens":64,"messages":[{"role":"user","content":"hello"}]`
		chat     = `{"model":"gpt-5.4","messages":[{"role":"user","content":"hello"}]`
	)
	for _, c := range []struct{ path, body, end string }{
		{"/v1/messages", messages + `}`, `"stop_reason":"end_turn"`},
		{"/v1/messages", messages + `,"stream":true}`, `"type":"message_stop"`},
		{"/v1/chat/completions", chat + `}`, `"finish_reason":"stop"`},
		{"/v1/chat/completions", chat + `,"stream":true}`, "[DONE]"},
	} {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:4000"+c.path,
			strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Llm-Cache-Headers", "full")
		req.Header.Set("X-Api-Key", key)
		req.Header.Set("X-Goog-Api-Key", key)
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || !bytes.Contains(b, []byte(c.end)) {
			t.Errorf("%s %s: %s, %v, %s", c.path, c.body, resp.Status, err, b)
		}
		for _, h := range []string{
			"Session", "Policy", "Original-Tokens", "Sent-Tokens", "Saved-Tokens", "Reduction-Pct",
			"Transforms", "Overhead-Us",
		} {
			if resp.Header.Get("X-Llm-Cache-"+h) == "" {
				t.Errorf("%s: no header X-Llm-Cache-%s in %v", c.path, h, resp.Header)
			}
		}
	}
	for _, port := range []string{"4000", "4001", "4002"} {
		// Another loopback address is as good as another machine.
		if c, err := net.DialTimeout("tcp", "127.0.0.2:"+port, time.Second); err == nil {
			c.Close()
			t.Errorf("port %s listens beyond 127.0.0.1", port)
		}
	}
	s := &stack{Process: p}
	sessions, err := s.sessions(ctx)
	if err != nil || len(sessions) == 0 {
		t.Errorf("%d sessions, %v", len(sessions), err)
	}
}
