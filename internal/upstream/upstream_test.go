// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
)

// TestRememberedRules: the cached rules never belong to another model or another day.
func TestRememberedRules(t *testing.T) {
	asked := 0
	provider := "openai"
	rules := remembered(func() string { return provider }, func(provider, model string, at time.Time) pricing.Rules {
		asked++
		return pricing.Rules{Provider: provider, Model: model, Input: float64(at.YearDay())}
	})
	night := time.Date(2026, 3, 1, 23, 59, 59, 0, time.UTC)
	for i, c := range []struct {
		model string
		at    time.Time
		asked int
	}{
		{"a", night, 1},
		{"a", night.Add(-time.Minute), 1},
		{"a", night.Add(time.Second), 2},
		{"b", night.Add(time.Second), 3},
		{"b", night.Add(time.Minute), 3},
		{"a", night, 4},
	} {
		got := rules(c.model, c.at)
		if got.Model != c.model || got.Input != float64(c.at.YearDay()) || asked != c.asked {
			t.Errorf("request %d: rules of %q on day %v after %d lookups, want %q on day %d after %d", i, got.Model, got.Input,
				asked, c.model, c.at.YearDay(), c.asked)
		}
	}
	provider = "azure"
	if got := rules("a", night); got.Provider != provider {
		t.Errorf("after another host was reached: rules of %q, want %q", got.Provider, provider)
	}
}
