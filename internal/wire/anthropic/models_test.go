// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package anthropic

import "testing"

func TestClaude(t *testing.T) {
	for model, want := range map[string]claude{
		"claude-opus-4-8": {"opus", 48}, "claude-3-5-sonnet-20241022": {"sonnet", 35}, "claude-opus-4-20250514": {"opus", 40},
		"us.anthropic.claude-haiku-4-5-20251001-v1:0": {"haiku", 45}, "claude-sonnet-5": {"sonnet", 50},
		"claude-fable-5-2":            {"fable", 52},
		"anthropic/claude-sonnet-4.5": {"sonnet", 45}, "gpt-5": {}, "claude-": {}, "": {},
	} {
		if got := claudeOf(model); got != want {
			t.Errorf("%s: got %+v, want %+v", model, got, want)
		}
	}
}
