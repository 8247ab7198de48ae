// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/simulator"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
)

const clearsAtNine = `"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"},` +
	`{"type":"clear_tool_uses_20250919","trigger":{"type":"tool_uses","value":9},"keep":{"type":"tool_uses","value":2}}]},`

// managed is a conversation whose client has old results cleared.
func managed(turns int, stream bool) string {
	tools := `"tools":[{"name":"Read","description":"Reads.","input_schema":{"type":"object",` +
		`"properties":{"file_path":{"type":"string"}}}}],`
	return strings.Replace(conversation(turns, stream), `"messages":[`, tools+clearsAtNine+`"messages":[`, 1)
}

// simulated is an upstream that answers as a provider does, and refuses what that refuses.
func simulated(t *testing.T, provider string) *upstream {
	model := &simulator.Handler{Cache: pricing.NewSimulator(pricing.SimulatorConfig{
		Rules: func(model string, at time.Time) pricing.Rules { return pricing.Lookup(provider, model, at) },
	})}
	var u *upstream
	u = newUpstream(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		r.Body = io.NopCloser(strings.NewReader(u.last().body))
		model.ServeHTTP(w, r)
	})
	return u
}

// TestClearing: what a client orders to be cleared is cleared for upstreams that do not do
// it, in bytes that stay, and the client is told as the Messages API tells it.
func TestClearing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ upstream, provider string }{
		"chat":      {"mlx_lm", "mlx_lm"},
		"responses": {"openai {\n model claude-* gpt-5.2\n}", "openai"},
		"gemini":    {"gemini {\n model claude-* gemini-3.1-pro\n}", "gemini"},
		"messages":  {"omlx", "omlx"},
	} {
		t.Run(name, func(t *testing.T) {
			u := simulated(t, c.provider)
			p := start(t, behind(u, c.upstream))
			peak, last := int64(0), ""
			for turns := range 20 {
				stream := turns%2 == 0
				res := p.post("/v1/messages", managed(turns, stream))
				answer := read(t, res)
				turn := turnOf(wire.Anthropic, stream, answer)
				if res.StatusCode != http.StatusOK || !turn.Done {
					t.Fatalf("%d turns: status %d: %s", turns, res.StatusCode, answer)
				}
				if got := strings.Count(answer, `"context_management":{"applied_edits":[`); got != 1 {
					t.Fatalf("%d turns: told %d times: %s", turns, got, answer)
				}
				sent := u.last().body
				cleared := int64(strings.Count(sent, content.ClearedPlaceholder))
				if turn.Cleared.ToolUses != cleared || (turn.Cleared.Tokens > 100*cleared) != (cleared > 0) ||
					turn.Cleared.Thinking != 0 {
					t.Errorf("%d turns: %d are cleared, told %+v", turns, cleared, turn.Cleared)
				}
				if left := int64(turns) - cleared; left > 9 || cleared < peak || strings.Contains(sent, "context_management") {
					t.Errorf("%d turns: %d results are left, %d cleared after %d: %.300s", turns, left, cleared, peak, sent)
				}
				if d := res.Header.Get("X-Llm-Cache-Dropped"); strings.Contains(d, "context_management") {
					t.Errorf("%d turns: left out: %s", turns, d)
				}
				// All that was cleared before stands there in the same bytes.
				if end := strings.LastIndex(last, content.ClearedPlaceholder); end > 0 {
					from := strings.Index(last, "Fix the build.")
					if !strings.Contains(sent, last[from:end]) {
						t.Errorf("%d turns: what was cleared has changed", turns)
					}
				}
				peak, last = cleared, sent
			}
			if peak < 12 {
				t.Errorf("no more than %d results were cleared", peak)
			}
			if s := p.sessions(); len(s) != 1 || s[0].requests() != 20 {
				t.Errorf("sessions are %v, want one with twenty requests", s)
			}
		})
	}
}

// TestClearingIsLeftToTheProvider: its own API gets the order, and every result.
func TestClearingIsLeftToTheProvider(t *testing.T) {
	t.Parallel()
	for _, stated := range []string{"", "upstream anthropic", "upstream omlx {\n drop metadata\n}"} {
		u := newUpstream(t, answerMessage)
		p := start(t, "llm_cache {\n policy eager\n breakpoints off\n zones {\n frozen 0\n hot 1\n min_messages 0\n }\n"+
			stated+"\n}\nreverse_proxy "+u.Listener.Addr().String())
		for turns := 12; turns < 16; turns++ {
			body := managed(turns, false)
			answer := read(t, p.post("/v1/messages", body))
			if sent := u.last().body; sent != body && !strings.Contains(stated, "omlx") ||
				gjson.Get(sent, "context_management").Raw != gjson.Get(body, "context_management").Raw ||
				gjson.Get(sent, "messages").Raw != gjson.Get(body, "messages").Raw || answer != message {
				t.Errorf("%q: sent %.300s; answered %s", stated, sent, answer)
			}
		}
	}
}

// TestClearingRefused: a box that refuses a cleared history gets the client's own, and the
// client is told of nothing.
func TestClearingRefused(t *testing.T) {
	t.Parallel()
	var u *upstream
	u = newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if strings.Contains(u.last().body, content.ClearedPlaceholder) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w,
				`{"type":"error","error":{"type":"invalid_request_error","message":"tool_result: not that"}}`)
			return
		}
		answerMessage(w, r, n)
	})
	p := start(t, behind(u, "omlx"))
	res := p.post("/v1/messages", managed(12, false))
	if got := read(t, res); res.StatusCode != http.StatusOK || got != message ||
		strings.Contains(u.last().body, content.ClearedPlaceholder) {
		t.Errorf("status %d: %s", res.StatusCode, got)
	}
}
