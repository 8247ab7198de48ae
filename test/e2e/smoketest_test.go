// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/caddy"
	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/engine"
)

// The smoke test finds no fault of a site before a simulated model, a real engine, Letta, and an
// edge and an origin. For an upstream that retains conversations it finds that new messages only
// are sent.
func TestSmoketest(t *testing.T) {
	needCaddy(t)
	type line struct {
		Name   string   `json:"name"`
		Status int      `json:"status"`
		Bytes  int      `json:"bytes"`
		Sent   int      `json:"sent"`
		Faults []string `json:"faults"`
	}
	for _, c := range []struct {
		name, model string
		formats     []string
		url         func(t *testing.T) string
		tolerated   string // a fault of the model itself
		holds       bool
	}{
		{
			"simulator", "claude-opus-4-6",
			[]string{"anthropic", "openai_chat", "openai_responses", "gemini"},
			func(t *testing.T) string {
				return startStack(t, setup{unwatched: true}).url
			}, "", false,
		},
		{"engine", "tiny", []string{"anthropic", "openai_chat", "openai_responses", "gemini"}, func(t *testing.T) string {
			e := startEngine(t, engine.Options{})
			return startStack(t, setup{cache: "upstream mlx_lm\nqueue", upstream: e.Addr, unwatched: true}).url
		}, "", false},
		// The agent of the tests always answers "pong".
		{"letta", "coder", []string{"openai_chat", "openai_responses"}, func(t *testing.T) string {
			return startStack(t, setup{cache: "upstream letta", upstream: startLetta(t).addr, unwatched: true}).url
		}, "the system prompt was not honoured", true},
		{
			"edge and origin", "claude-opus-4-6",
			[]string{"anthropic", "openai_chat", "openai_responses", "gemini"},
			func(t *testing.T) string {
				model := startStack(t, setup{unwatched: true})
				addrs, err := caddy.FreeAddrs(2)
				if err != nil {
					t.Fatal(err)
				}
				model.start(t, "origin", addrs[0], site(addrs[0], addrs[1], "origin", "llm_cache_origin\nreverse_proxy "+
					model.modelAddr))
				return startStack(t, setup{cache: "retain origin", upstream: addrs[1], unwatched: true}).url
			}, "", true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url := c.url(t)
			for _, format := range c.formats {
				cmd := exec.CommandContext(t.Context(), binary, "llm-cache", "smoketest", "--url", url, "--model", c.model,
					"--format", format, "--json")
				cmd.Env = []string{"LLM_CACHE_KEY=k", "HOME=" + t.TempDir()}
				out, err := cmd.Output()
				var lines []line
				if bad := json.Unmarshal(out, &lines); bad != nil {
					t.Fatalf("%s: %v, %v: %s", format, bad, err, out)
				}
				if (err == nil) != (c.tolerated == "") {
					t.Errorf("%s: %v", format, err)
				}
				for _, l := range lines {
					for _, fault := range l.Faults {
						if c.tolerated == "" || !strings.HasPrefix(fault, c.tolerated) {
							t.Errorf("%s: %s: %s", format, l.Name, fault)
						}
					}
				}
				if len(lines) != 5 {
					t.Errorf("%s: %d lines, want 5: %s", format, len(lines), out)
				} else if goesOn := lines[1]; c.holds != (goesOn.Sent > 0) {
					t.Errorf("%s: of %d bytes %d were sent", format, goesOn.Bytes, goesOn.Sent)
				}
			}
		})
	}
}
