// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"fmt"
	"slices"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
)

// TestAssumedRules: a handler without the row of a model has those of a sibling with another lifetime
// and another minimum. Usage corrects them: once it has seen some conversations, they cost within a
// point of what they cost with the right row.
func TestAssumedRules(t *testing.T) {
	conversations, err := recording.Find(testkit.RecordingFolder(t))
	if err != nil {
		t.Fatal(err)
	}
	conversations = slices.DeleteFunc(conversations, func(c *recording.Conversation) bool { return c.Calls > 60 })
	table := func(model, ttl string, tokens int) *pricing.Table {
		o, err := pricing.ReadTable(model, fmt.Appendf(nil, `{"collected": "2026-11-20", "vendors": {"openai": {
			"caches": {"breakpoints": {"kind": "breakpoints", "ttl": %q, "markers": 4, "min_tokens": %d, "write": 1.25, "read": 0.05, "traits": ["keeps_thinking", "binds_reasoning"]}},
			"families": {"gpt-sol": {%q: {"prices": [{"input": 2, "output": 10}]}}}}}}`, ttl, tokens, model))
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	for _, c := range []struct {
		ttl    string
		tokens int
	}{{"5m", 1024}, {"12h", 1024}, {"30m", 4096}, {"5m", 4096}} {
		cost := func(assumed *pricing.Table) float64 {
			report, err := Run(t.Context(), conversations,
				Options{Profiles: []string{"gpt-6.1"}, Prices: table("gpt-6.1-sol", c.ttl, c.tokens), assumed: assumed})
			if err != nil {
				t.Fatal(err)
			}
			total := &report.Runs[0].Total
			return 100 * (total.Cost/total.BaseCost - 1)
		}
		sibling := table("gpt-6-sol", "30m", 1024)
		right, first, got := cost(nil), cost(sibling), cost(sibling)
		t.Logf("%s, %d tokens: %.2f %% with the right row, %.2f %% at first with that of a sibling, then %.2f %%; %d "+
			"conversations", c.ttl, c.tokens, right, first, got, len(conversations))
		if d := got - right; d > 1 || d < -1 {
			t.Errorf("%s, %d tokens: got %.2f %%, want within a point of %.2f %%", c.ttl, c.tokens, got, right)
		}
	}
}
