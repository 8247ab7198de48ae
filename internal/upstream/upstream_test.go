// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"os"
	"regexp"
	"strings"
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

// TestPresetsAreListed: the documentation of the option lists each preset.
func TestPresetsAreListed(t *testing.T) {
	source, err := os.ReadFile("upstream.go")
	if err != nil {
		t.Fatal(err)
	}
	_, comment, _ := strings.Cut(string(source), "// Preset names the kind of upstream")
	comment, _, _ = strings.Cut(comment, "\tPreset ")
	page, err := os.ReadFile("../../docs/reference/caddyfile.md")
	if err != nil {
		t.Fatal(err)
	}
	_, listing, _ := strings.Cut(string(page), "upstream [<preset>] {")
	listing, _, _ = strings.Cut(listing, "Default:")
	for name := range presets {
		word := regexp.MustCompile(`\b` + name + `\b`)
		if !word.MatchString(comment) {
			t.Errorf("upstream.go does not list %s in the comment on Preset", name)
		}
		if !word.MatchString(listing) {
			t.Errorf("docs/reference/caddyfile.md does not list %s", name)
		}
	}
}
