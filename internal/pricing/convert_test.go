// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"slices"
	"strings"
	"testing"
)

// TestConvert: prices of LiteLLM's and models.dev's tables are told apart from ours, and a
// model that only they have gets the kind of cache of its sibling.
func TestConvert(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"LiteLLM": {
			`{
			"sample_spec": {"litellm_provider": "one of many", "mode": "chat"},
			"claude-opus-5-5": {"litellm_provider": "anthropic", "mode": "chat", "input_cost_per_token": 4e-06, "output_cost_per_token": 2e-05, "cache_read_input_token_cost": 2e-07, "cache_creation_input_token_cost": 5e-06, "cache_creation_input_token_cost_above_1hr": 8e-06},
			"gpt-6.2-sol": {"litellm_provider": "openai", "mode": "responses", "input_cost_per_token": 2e-06, "output_cost_per_token": 1.2e-05, "cache_read_input_token_cost": 1e-07, "cache_creation_input_token_cost": 2.5e-06, "input_cost_per_token_above_272k_tokens": 4e-06, "output_cost_per_token_above_272k_tokens": 1.8e-05},
			"gpt-6.2-sol-2026-11-17": {"litellm_provider": "openai", "mode": "responses", "input_cost_per_token": 9e-06, "output_cost_per_token": 9e-05},
			"gpt-6.3-sol": {"litellm_provider": "openai", "mode": "responses", "input_cost_per_token": 3e-06, "output_cost_per_token": 1.5e-05, "cache_read_input_token_cost": 1.5e-07},
			"xai/grok-4.5": {"litellm_provider": "xai", "mode": "chat", "input_cost_per_token": 2e-06, "output_cost_per_token": 6e-06, "cache_read_input_token_cost": 3e-07},
			"text-embedding-9": {"litellm_provider": "openai", "mode": "embedding", "input_cost_per_token": 1e-08},
			"titan": {"litellm_provider": "somebody", "mode": "chat", "input_cost_per_token": 1e-06, "output_cost_per_token": 1e-06}}`,
			[]string{
				"openai gpt-6.3-sol: new, $3 input, $15 output", "openai gpt-6.2-sol: output: 12, was 10",
				"xai grok-4.5: read: 0.15, was 0.25",
			},
		},
		"models.dev": {
			`{
			"google": {"id": "google", "models": {"gemini-4-neon": {"cost": {"input": 3, "output": 15, "cache_read": 0.3}}, "gemini-5-zinc": {"cost": {"input": 1, "output": 4}}}},
			"zai": {"id": "zai", "models": {"glm-5.3": {"cost": {"input": 1.4, "output": 4.4, "cache_read": 0.26}}}},
			"somebody": {"id": "somebody", "models": {"titan": {"cost": {"input": 1, "output": 1}}}}}`,
			[]string{"gemini gemini-4-neon: read: 0.1, was 0.05", "gemini gemini-5-zinc: new, $1 input, $4 output"},
		},
		"a models file": {
			`{"vendors": {"anthropic": {"families": {"claude-haiku": {"claude-haiku-4-5": {"min_tokens": 2048}}}}}}`,
			[]string{"anthropic claude-haiku-4-5: min_tokens: 2048, was 4096"},
		},
	} {
		text, err := BuiltIn().Convert([]byte(tt.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		table, err := BuiltIn().With("converted.json", text)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
			continue
		}
		var got []string
		for _, d := range BuiltIn().Differences(table, day("2026-11-27")) {
			got = append(got, d.String())
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
		}
	}
	for text, want := range map[string]string{"{": "not valid JSON", `{"a": {"b": 1}}`: "no prices of a known vendor"} {
		if _, err := BuiltIn().Convert([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
