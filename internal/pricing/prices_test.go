// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"strings"
	"testing"
	"time"
)

func TestPricesTable(t *testing.T) {
	var rows []price
	for _, of := range BuiltIn().rows {
		rows = append(rows, of...)
	}
	if len(rows) < 30 {
		t.Fatalf("%d rows, more expected", len(rows))
	}
	for _, p := range rows {
		r := p.rules
		key := p.provider + " " + p.model
		if r.Output < r.Input {
			t.Errorf("%s: output %g is cheaper than input %g", key, r.Output, r.Input)
		}
		if r.Read < 0.02 || r.Read > 0.5 {
			t.Errorf("%s: read multiple %g", key, r.Read)
		}
		if r.MinTokens < 512 || r.MinTokens > 4096 {
			t.Errorf("%s: minimum %d", key, r.MinTokens)
		}
		switch {
		case strings.HasPrefix(p.model, "claude-"):
			if r.Write != 1.25 || r.Write1h != 2 {
				t.Errorf("%s: write multiples %g and %g, 1.25 and 2 hold for all", key, r.Write, r.Write1h)
			}
		case r.Write != r.Write1h || r.Write != 1 && r.Write != 1.25:
			t.Errorf("%s: write multiples %g and %g", key, r.Write, r.Write1h)
		}
		if r.TierAbove > 0 && (r.TierInput <= 1 || r.TierOutput <= 1) {
			t.Errorf("%s: tier %d:%g:%g", key, r.TierAbove, r.TierInput, r.TierOutput)
		}
		if !strings.HasPrefix(r.Mark, "[") {
			t.Errorf("%s: mark %q", key, r.Mark)
		}
		if n := parseName(p.model); n.model != p.model {
			t.Errorf("%s: its own name is read as %q", key, n.model)
		}
	}
}

func TestPricesRefused(t *testing.T) {
	for _, line := range []string{
		"anthropic claude-x",
		"anthropic claude-x 2026-13-01 1 5 1.25 2 0.1 512 - - - [D]",
		"anthropic claude-x - one 5 1.25 2 0.1 512 - - - [D]",
		"anthropic claude-x - 0 5 1.25 2 0.1 512 - - - [D]",
		"anthropic claude-x - 1 5 1.25 2 0.1 few - - - [D]",
		"anthropic claude-x - 1 5 1.25 2 0.1 512 9 - - [D]",
		"anthropic claude-x - 1 5 1.25 2 0.1 512 - x - [D]",
		"anthropic claude-x - 1 5 1.25 2 0.1 512 - - odd [D]",
		"nobody claude-x - 1 5 1.25 2 0.1 512 - - - [D]",
		"anthropic claude-x - NaN 5 1.25 2 0.1 512 - - - [D]",
		"anthropic claude-x - 1 -5 1.25 2 0.1 512 - - - [D]",
		"anthropic claude-x - 1 5 1.25 2 1.1 512 - - - [D]",
		"anthropic claude-x - 1 5 1.25 2 0.1 -1 - - - [D]",
		"anthropic claude-x - 1 5 1.25 2 0.1 512 200000:2:x - - [D]",
		"anthropic claude-x - 1 5 1.25 2 0.1 512 0:2:2 - - [D]",
	} {
		if _, err := ReadTable("mine", "# what we pay\n"+line); err == nil || !strings.HasPrefix(err.Error(), "mine:2: ") {
			t.Errorf("%s: error %v", line, err)
		}
	}
	const row = "anthropic claude-x 2026-01-01 1 5 1.25 2 0.1 512 - - -\n"
	if _, err := ReadTable("mine", row+row); err == nil || !strings.HasPrefix(err.Error(), "mine:2: ") {
		t.Errorf("the same day twice: error %v", err)
	}
}

// TestPricesOfUsers: rows of a file take the place of those of the same model, from their
// days on, and no others.
func TestPricesOfUsers(t *testing.T) {
	file, err := ReadTable("mine", strings.Join([]string{
		"anthropic claude-sonnet-4.6 -          2 12 2.5 4 0.2 2048 - - keeps     our contract",
		"anthropic claude-sonnet-4-6 2027-01-01 1 6  1.25 2 0.1 2048 - - keeps    next year's",
		"other     Kimi/Kimi-K9      -          0.5 2 - - 0.05 - - 262144 -",
		"openai    gpt-5.4           -          2 10 - - - 1024 - - keeps",
	}, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	table := BuiltIn().With(file)
	now, later := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC), time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC)
	if r := table.Lookup("anthropic", "claude-sonnet-4-6", now); r.Input != 2 || r.Write1h != 2 || r.MinTokens != 2048 || r.Regime != Markers || r.Mark != "our contract" {
		t.Errorf("a model of the file: %+v", r)
	}
	if r := table.Lookup("anthropic", "claude-sonnet-4-6", later); r.Input != 1 {
		t.Errorf("next year: input %g", r.Input)
	}
	if r := table.Lookup("", "kimi/kimi-k9", now); r.Input != 0.5 || r.Read != 0.1 || r.Write != 1 || r.Regime != Automatic || r.TTL != 5*time.Minute || r.ContextWindow != 262144 {
		t.Errorf("a model of another host: %+v", r)
	}
	if r := table.Lookup("openai", "gpt-5.4", now); r.Input != 2 || r.Read != 1 || r.TTL != 24*time.Hour {
		t.Errorf("no price of reading: %+v", r)
	}
	if r, want := table.Lookup("anthropic", "claude-opus-5-5", now), Lookup("anthropic", "claude-opus-5-5", now); r != want || r.Input == 0 {
		t.Errorf("a model that is not in the file: %+v, %+v expected", r, want)
	}
	if r := Lookup("", "kimi/kimi-k9", now); r.Regime != KV || r.Input != 0 {
		t.Errorf("the built-in table was changed: %+v", r)
	}
}

// TestUnknownModels: a model that the table does not know has the prices of the dearest
// model of its vendor, by its name or the upstream, and of no box.
func TestUnknownModels(t *testing.T) {
	mine, err := ReadTable("mine", strings.Join([]string{
		"anthropic claude-opus-4-1 -          3  12 3.75 6 0.3 1024 - - -",
		"anthropic claude-atlas-1  2027-01-01 90 450 -   - 9   1024 - - -",
		"openai    gpt-5           -          40 80  -   - 4   1024 300000:2:3 - -",
	}, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		table           *Table
		provider, model string
		input, output   float64
		as              string
	}{
		{BuiltIn(), "", "claude-opus-6", 15, 75, "claude-opus-4-1"},
		{BuiltIn(), "anthropic", "cluade-opus-5", 15, 75, "claude-opus-4-1"},
		{BuiltIn(), "anthropic", "", 15, 75, "claude-opus-4-1"},
		{BuiltIn(), "bedrock", "us.anthropic.claude-opus-6-v1:0", 16.5, 82.5, "claude-opus-4-1"},
		{BuiltIn(), "", "openai/gpt-6.2-sol", 10, 50, "gpt-6-astra"},
		{BuiltIn(), "azure", "our-deployment", 10, 50, "gpt-6-astra"},
		{BuiltIn(), "vertex", "gemini-5-neon", 2, 12, "gemini-3.1-pro"},
		{BuiltIn(), "gemini", "gemini-5-neon", 2, 12, "gemini-3.1-pro"},
		{BuiltIn(), "", "claude-opus-5", 5, 25, ""},
		{BuiltIn(), "", "deepseek-flash", 0, 0, ""},
		{BuiltIn().PricingAll(), "", "deepseek-flash", 15, 75, "claude-opus-4-1"},
		{BuiltIn().PricingAll(), "", "claude-opus-5", 5, 25, ""},
		{BuiltIn().PricingAll(), "mlx_lm", "claude-opus-6", 0, 0, ""},
		{BuiltIn().With(mine), "", "claude-opus-6", 90, 450, "claude-atlas-1"},
		{BuiltIn().With(mine), "", "gpt-9", 40, 80, "gpt-5"},
		{BuiltIn().With(mine).PricingAll(), "", "deepseek-flash", 90, 450, "claude-atlas-1"},
	} {
		r := c.table.Lookup(c.provider, c.model, at)
		if r.Input != c.input || r.Output != c.output || r.PricesOf != c.as {
			t.Errorf("%q %q: got $%g and $%g as %q, want $%g and $%g as %q", c.provider, c.model, r.Input, r.Output, r.PricesOf, c.input, c.output, c.as)
		}
	}
	if r := BuiltIn().With(mine).Lookup("", "gpt-9", at); r.TierAbove != 300000 || r.TierInput != 2 || r.TierOutput != 3 {
		t.Errorf("got %+v, want the tier of the dearest model", r)
	}
	own := 1.0
	if r := Lookup("", "claude-opus-6", at).With(Override{Input: &own}); r.Input != 1 || r.PricesOf != "" {
		t.Errorf("a price of the operator's own: got %+v", r)
	}
}
