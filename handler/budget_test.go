// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/allowance"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// TestDenySpent: in every API a spent budget is an error that ends its clients at once and
// says whose budget it is, how much, and when it begins anew.
func TestDenySpent(t *testing.T) {
	cet := time.FixedZone("CET", 3600)
	now := time.Date(2026, 11, 26, 18, 0, 0, 0, cet)
	v := &allowance.Verdict{
		Account: allowance.Account{Kind: allowance.User, Name: "anna"},
		Budget:  &allowance.Budget{Dollars: 20}, Spent: allowance.Spent{Dollars: 20.03},
		Ends: time.Date(2026, 11, 27, 0, 0, 0, 0, cet), Refused: true,
	}
	const message = `the budget of anna, $20.00 a day, is spent ($20.03 so far); it begins anew on Fri 27 Nov 2026 at ` +
		`00:00 CET`
	openAI := `{"error":{"message":"` + message +
		`","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`
	for _, c := range []struct {
		format          wire.Format
		agent           string
		status          int
		body            string
		after, rejected string
	}{
		{
			wire.Anthropic, "claude-cli/2.1.330 (external, cli)", 429,
			`{"type":"error","error":{"type":"billing_error","message":"` + message + `"}}`, "21601", "rejected",
		},
		{
			wire.Anthropic, "opencode/1.18.33 ai-sdk/provider-utils/4.0.1", 402,
			`{"type":"error","error":{"type":"billing_error","message":"` + message + `"}}`, "", "rejected",
		},
		{wire.OpenAIChat, "", 429, openAI, "", ""},
		{wire.OpenAIChat, "opencode/1.18.33 ai-sdk/provider-utils/4.0.1", 402, openAI, "", ""},
		{wire.OpenAIResponses, "OpenAI/Python 2.1", 429, openAI, "", ""},
		{
			wire.OpenAIResponses, "codex_exec/0.169.0 (Debian 12.0.0; x86_64)", 429,
			strings.Replace(openAI, `"type":"insufficient_quota"`, `"type":"usage_limit_reached"`, 1), "", "",
		},
		{wire.Gemini, "", 429, `{"error":{"code":429,"message":"` + message +
			`","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure",` +
			`"violations":[{"quotaId":"LlmCacheBudget","description":"` + message +
			`"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"21601s"}]}}`, "", ""},
	} {
		w := httptest.NewRecorder()
		if err := denySpent(w, c.format, c.agent, v, now); err != nil {
			t.Fatal(err)
		}
		h := w.Header()
		if w.Code != c.status || w.Body.String() != c.body {
			t.Errorf("%s for %q: got %d %s\nwant %d %s", c.format, c.agent, w.Code, w.Body, c.status, c.body)
		}
		if h.Get("X-Should-Retry") != "false" || h.Get("Retry-After") != c.after ||
			h.Get("Anthropic-Ratelimit-Unified-Status") != c.rejected {
			t.Errorf("%s: got the headers %v, want Retry-After %q and the status %q", c.format, h, c.after, c.rejected)
		}
	}
}

// TestIsPaid: what providers charge nothing for passes a spent budget.
func TestIsPaid(t *testing.T) {
	for target, want := range map[string]bool{
		"POST /v1/messages/batches": true, "POST /v1/batches": true,
		"POST /v1beta/models/gemini-3.1-pro:batchGenerateContent": true,
		"POST /v1/embeddings": true, "POST /v1/images/generations": true, "POST /v1/audio/speech": true,
		"POST /v1/responses/compact":                        true,
		"POST /v1beta/models/gemini-embedding:embedContent": true, "POST /v1/completions": true, "POST /v1/rerank": true,
		"GET /v1/models": false, "GET /v1/messages/batches/1/results": false, "DELETE /v1/files/1": false,
		"POST /v1/files":                 false,
		"POST /v1/messages/count_tokens": false, "POST /v1/responses/input_tokens": false,
		"POST /v1beta/models/gemini-3.1-pro:countTokens": false,
		"POST /v1/batches/1/cancel":                      false, "POST /api/event_logging/batch": false,
		"POST /v1/moderations/": false,
		// Codex CLI 0.171 with a ChatGPT login
		"POST /backend-api/codex/memories/trace_summarize": true, "POST /backend-api/codex/analytics-events/events": false,
		"POST /backend-api/ps/mcp": false, "POST /backend-api/wham/usage/thread-estimates/query": false,
	} {
		method, path, _ := strings.Cut(target, " ")
		if got := isPaid(httptest.NewRequest(method, path, nil)); got != want {
			t.Errorf("%s: got %t, want %t", target, got, want)
		}
	}
}
