// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"strings"
	"testing"
	"time"
)

// Programs with the official SDK of one API stream tasks of many tool calls with a model whose
// server only has another API.
func TestTranslatedSDKs(t *testing.T) {
	for _, c := range []struct {
		name, upstream, path string
		make                 func(url string) agent
		calls, stop          string
	}{
		{
			"anthropic-sdk-go to chat", "mlx_lm {\n model claude-* gpt-5.4\n}", "/v1/chat/completions", newAnthropicAgent,
			"tool_use", "end_turn",
		},
		{
			"anthropic-sdk-go v2 to chat", "mlx_lm {\n model claude-* gpt-5.4\n}", "/v1/chat/completions", newAnthropicV2Agent,
			"tool_use", "end_turn",
		},
		{
			"anthropic-sdk-go to responses", "openai {\n format openai_responses\n model claude-* gpt-5.4\n}", "/v1/responses",
			newAnthropicAgent, "tool_use", "end_turn",
		},
		{
			"openai-go v3 to messages", "anthropic {\n model gpt-* claude-sonnet-4-5\n}", "/v1/messages", newOpenAIAgent,
			"tool_calls", "stop",
		},
		{
			"openai-go v3 to responses", "openai {\n format openai_responses\n}", "/v1/responses", newOpenAIAgent, "tool_calls",
			"stop",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			script := sdkScript()
			s := startStack(t, setup{cache: "upstream " + c.upstream, script: script})
			a := c.make(s.url)
			a.prompt("Find out why the build fails.")
			var cached []int64
			for i, step := range script {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				r, err := a.answer(ctx)
				cancel()
				if err != nil {
					t.Fatalf("request %d: %v", i, err)
				}
				finish := c.calls
				if len(step.Calls) == 0 {
					finish = c.stop
					a.prompt("Now mend it.")
				}
				compare(t, i, r, step, finish)
				if r.prompt <= 0 || r.output <= 0 || r.cached > r.prompt {
					t.Errorf("answer %d reports %+v", i, r)
				}
				if i > 1 && r.cached == 0 {
					t.Errorf("answer %d read nothing from the cache: %+v", i, r)
				}
				cached = append(cached, r.cached)
				a.results(results(r.calls))
			}
			sessions, front := s.settle(t, 1)
			s.clean(t)
			if len(front) != len(script) || len(sessions[0].Conversations) != 1 {
				t.Errorf("%d requests for %d steps in %d conversations", len(front), len(script), len(sessions[0].Conversations))
			}
			var sum int64
			for _, n := range cached {
				sum += n
			}
			if read := sessions[0].Conversations[0].Total.Read; read != sum {
				t.Errorf("the admin endpoint counts %d tokens read, the client %d", read, sum)
			}
			for _, e := range s.access(t, "model.log") {
				if path, _, _ := strings.Cut(e.Request.URI, "?"); path != c.path {
					t.Errorf("the upstream was asked at %s", path)
				}
			}
			t.Logf("cached tokens of each answer: %v", cached)
		})
	}
}
