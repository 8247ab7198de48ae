// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/contract"
	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/engine"
)

// Clients of every format work with an engine for chat completions. By the engine's own count, each
// request finds the previous one in the cache.
func TestClientsOnEngine(t *testing.T) {
	for _, c := range []struct {
		name   string
		client func(url string) client
	}{
		{"Claude Code", func(url string) client { return claudeCode{url: url} }},
		{"Codex", func(url string) client { return codex{url: url} }},
		{"opencode", func(url string) client { return opencode{url: url, provider: "box", model: "qwen3-coder"} }},
		{"Gemini CLI", func(url string) client { return geminiCLI{url: url} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			needClient(t, c.client(""))
			e := startEngine(t, engine.Options{Slots: 2, Context: 2 * 65536})
			r := newRepository(t, c.client(""))
			first, second := r.brief()
			if !c.client("").resumes() {
				first, second = slices.Concat(first[:len(first)-1], second), nil
			}
			script(t, e, first, second)
			s := startStack(t, setup{cache: "upstream mlx_lm", upstream: e.Addr, audit: true})
			u := newUser(t, c.client(s.url), r.dir)
			u.patience = 15 * time.Minute
			u.ask(t, firstPrompt, first)
			if second != nil {
				u.ask(t, secondPrompt, second)
			}
			r.check(t)

			turns := s.turns(t, map[int]int{http.StatusOK: len(first) + len(second)})
			for i, turn := range turns {
				if turn.Outcome != "completed" || turn.Session != turns[0].Session || turn.UpstreamFormat != "openai_chat" {
					t.Errorf("turn %d: %+v", i, turn)
				}
			}
			reused(t, e, 0.99)
		})
	}
}

// The same for programs with the official SDK of each format: each request finds the whole previous
// prompt.
func TestSDKsOnEngine(t *testing.T) {
	e := startEngine(t, engine.Options{})
	for _, c := range []struct {
		name   string
		make   func(url string) agent
		finish string
	}{
		{"anthropic", newAnthropicAgent, "tool_use"},
		{"openai_chat", newOpenAIAgent, "tool_calls"},
		{"openai_responses", newResponsesAgent, "completed"},
		{"gemini", newGeminiWholeAgent, "STOP"},
	} {
		t.Run(c.name, func(t *testing.T) {
			steps := sdkScript()[:4]
			script(t, e, steps)
			if err := e.Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
			s := startStack(t, setup{cache: "upstream mlx_lm", upstream: e.Addr, audit: true})
			a := c.make(s.url)
			a.prompt("Find out why the build fails.")
			for i, step := range steps {
				r, err := a.answer(t.Context())
				if err != nil {
					t.Fatalf("request %d: %v", i, err)
				}
				compare(t, i, r, step, c.finish)
				if i > 0 && r.cached == 0 {
					t.Errorf("answer %d read nothing from the cache: %+v", i, r)
				}
				a.results(results(r.calls))
			}
			s.turns(t, map[int]int{http.StatusOK: len(steps)})
			reused(t, e, 1)
		})
	}
}

// script sets the engine's answers to the steps.
func script(t *testing.T, e *engine.Engine, tasks ...[]step) {
	t.Helper()
	var steps []engine.Step
	for _, task := range tasks {
		for _, s := range asFunctions(contract.Chat, task) {
			next := engine.Step{Thinking: s.Thinking, Text: s.Text}
			for _, c := range s.Calls {
				var b bytes.Buffer
				enc := json.NewEncoder(&b)
				enc.SetEscapeHTML(false)
				if err := enc.Encode(c.Input); err != nil {
					t.Fatal(err)
				}
				next.Calls = append(next.Calls, engine.Call{Name: c.Name, Arguments: string(bytes.TrimSpace(b.Bytes()))})
			}
			steps = append(steps, next)
		}
	}
	if err := e.Script(t.Context(), steps); err != nil {
		t.Fatal(err)
	}
}

// reused checks that every request of the conversation but the first found that share of the
// previous prompt in the engine's cache.
func reused(t *testing.T, e *engine.Engine, share float64) {
	t.Helper()
	all, err := e.Requests(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var before engine.Request
	least, sum, n := 1.0, 0.0, 0
	for i, r := range all {
		if r.Tools == 0 {
			continue // a request for a title
		}
		if before.Prompt > 0 {
			got := min(1, float64(r.Cached)/float64(before.Prompt))
			least, sum, n = min(least, got), sum+got, n+1
			if got < share {
				t.Errorf("request %d found %d tokens in the cache, %.1f %% of the prompt before it (%d): %+v", i, r.Cached, 100*got,
					before.Prompt, r)
			}
		}
		before = r
	}
	if n == 0 {
		t.Fatal("no request came behind another one")
	}
	t.Logf("of the prompt before it a request found %.2f %% at least, %.2f %% on average, in %d requests; the last "+
		"one: %+v", 100*least, 100*sum/float64(n), n, before)
}
