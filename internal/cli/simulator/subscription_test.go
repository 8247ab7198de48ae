// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/subscription"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
)

// TestSubscription: the windows fill with the cost of earlier requests, of each credential apart, and
// begin anew at their reset.
func TestSubscription(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	h := &Handler{
		Cache: pricing.NewSimulator(pricing.SimulatorConfig{
			Rules: func(model string, at time.Time) pricing.Rules { return pricing.Lookup("", model, at) },
		}),
		Hooks: Hooks{Now: func(context.Context) time.Time { return now }},
	}
	ask := func(path, key, body string) subscription.Windows {
		t.Helper()
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("X-Api-Key", key)
		if h.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		return subscription.Read(w.Header(), now)
	}
	claude := func(key string) subscription.Windows {
		return ask("/v1/messages", key, `{"model":"claude-sonnet-5","max_tokens":9,"messages":[{"role":"user","content":"`+
			strings.Repeat("many words ", 1000)+`"}]}`)
	}
	if got := claude("k"); got != nil {
		t.Errorf("a key has the windows %+v", got)
	}
	h.Subscription = 0.02
	first, second, other := claude("k"), claude("k"), claude("other")
	if len(first) != 2 || first[0].Name != "claude 5h" || first[0].Used != 0 || !first[0].Resets.Equal(now.Add(5*time.Hour)) ||
		first[1].Name != "claude 7d" || first[1].Status != "allowed" {
		t.Errorf("the first response has %+v", first)
	}
	if used := second[0].Used; used < 0.02 || second[1].Used > used/9 || other[0].Used != 0 {
		t.Errorf("the second response has %+v, one of another key %+v", second, other)
	}
	now = now.Add(6 * time.Hour)
	if got := claude("k"); got[0].Used != 0 || got[1].Used < second[1].Used {
		t.Errorf("after five hours: %+v", got)
	}
	got := ask("/backend-api/codex/responses", "k", `{"model":"gpt-6.1-sol","input":"go"}`)
	if len(got) != 2 || got[0].Name != "codex 5h" || got[1].Name != "codex 7d" || !got[0].Resets.Equal(now.Add(5*time.Hour)) {
		t.Errorf("Codex gets %+v, want the same kinds of windows", got)
	}
}
