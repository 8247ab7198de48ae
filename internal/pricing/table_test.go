// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"maps"
	"strings"
	"testing"
	"time"
)

// TestModelsFile: every row of the built-in table is plausible, and says where it is from.
func TestModelsFile(t *testing.T) {
	rows := 0
	for vendor, v := range BuiltIn().vendors {
		for _, m := range v.models {
			rows++
			key, r := vendor+" "+m.name, m.rules(Collected())
			switch {
			case len(m.Prices) == 0:
			case r.Output < r.Input:
				t.Errorf("%s: output $%g is cheaper than input $%g", key, r.Output, r.Input)
			}
			if r.Read < 0.02 || r.Read > 1 {
				t.Errorf("%s: read multiple %g", key, r.Read)
			}
			switch {
			case strings.HasPrefix(m.name, "claude-"):
				if r.Write != 1.25 || r.Write1h != 2 || r.MinTokens < 512 || r.MinTokens > 4096 {
					t.Errorf("%s: got write %g, %g and minimum %d, want 1.25, 2 and 512 to 4096", key, r.Write, r.Write1h, r.MinTokens)
				}
			case r.Write != r.Write1h || r.Write != 1 && r.Write != 1.25:
				t.Errorf("%s: write multiples %g and %g", key, r.Write, r.Write1h)
			}
			if m.Grade == "" || m.evidence.Source == "" || m.evidence.Checked.IsZero() {
				t.Errorf("%s: got grade %q, source %q, checked %v; want all of them", key, m.Grade, m.evidence.Source,
					m.evidence.Checked)
			}
			if m.evidence.Checked.After(Collected()) {
				t.Errorf("%s: checked %v after %v", key, m.evidence.Checked, Collected())
			}
			if n := parseName(m.name); n.model != m.name {
				t.Errorf("%s: its own name is read as %q", key, n.model)
			}
		}
		for name, c := range v.Caches {
			if e := c.evidence.or(v.evidence); vendor != "other" && (e.Source == "" || e.Checked.IsZero()) {
				t.Errorf("%s: caches: %s: no source", vendor, name)
			}
		}
	}
	if rows < 50 {
		t.Errorf("got %d rows, want more", rows)
	}
}

// TestNovemberModels: the models of November 2026 have their own prices and rules.
func TestNovemberModels(t *testing.T) {
	type dollars struct{ input, read, write, output float64 }
	for _, tt := range []struct {
		model       string
		day         string
		prompt      int
		regime      Regime
		ttl         time.Duration
		want        dollars
		contextSize int
	}{
		{"gpt-6.2-sol", "2026-11-27", 1000, Breakpoints, 30 * time.Minute, dollars{2, 0.10, 2.50, 10}, 1050000},
		{"gpt-6.2-sol", "2026-11-27", 272001, Breakpoints, 30 * time.Minute, dollars{4, 0.20, 5, 15}, 1050000},
		{"gpt-6.2-astra", "2026-11-27", 1000, Breakpoints, 30 * time.Minute, dollars{8, 0.40, 10, 40}, 1050000},
		{"gpt-6.2-astra", "2026-11-27", 272001, Breakpoints, 30 * time.Minute, dollars{16, 0.80, 20, 60}, 1050000},
		{"gemini-4-carbon", "2026-11-30", 300000, Automatic, 5 * time.Minute, dollars{2, 0.10, 2, 10}, 0},
		{"gemini-4-carbon", "2026-12-01", 300000, Automatic, 5 * time.Minute, dollars{4, 0.20, 4, 20}, 0},
		{"gemini-4-hydrogen", "2026-11-27", 300000, Automatic, 5 * time.Minute, dollars{1.50, 0.075, 1.50, 7.50}, 0},
		{"gemini-4-neon", "2026-11-27", 300000, Automatic, 5 * time.Minute, dollars{3, 0.15, 3, 15}, 0},
	} {
		r := Lookup("", tt.model, day(tt.day)).At(tt.prompt)
		got := dollars{r.Input, r.Input * r.Read, r.Input * r.Write, r.Output}
		if !near(got.input, tt.want.input) || !near(got.read, tt.want.read) || !near(got.write, tt.want.write) ||
			!near(got.output, tt.want.output) ||
			r.Regime != tt.regime || r.TTL != tt.ttl || r.ContextWindow != tt.contextSize || r.AssumedFrom != "" ||
			r.PricesOf != "" {
			t.Errorf("%s, %d tokens on %s: got %+v (%+v), want %+v", tt.model, tt.prompt, tt.day, got, r, tt.want)
		}
	}
}

// TestAssumed: a model that the table does not have gets the rules of its nearest sibling,
// and the prices of the dearest of its family, or else of its vendor.
func TestAssumed(t *testing.T) {
	at := day("2026-11-27")
	for _, tt := range []struct {
		provider, model string
		assumed, prices string
		read, input     float64
		regime          Regime
	}{
		{"", "gpt-6.9-nova", "gpt-6.2-astra", "gpt-6-astra", 0.05, 10, Breakpoints},
		{"", "gpt-6.3-sol", "gpt-6.2-sol", "gpt-5.6-sol", 0.05, 4, Breakpoints},
		{"", "gpt-6.1.5-sol-2027-01-01", "gpt-6.1-sol", "gpt-5.6-sol", 0.05, 4, Breakpoints},
		{"", "gpt-7", "gpt-6.2-astra", "gpt-5.5", 0.05, 5, Breakpoints}, // the family's newest has another kind of cache
		{"", "gpt-5-mini", "gpt-5", "gpt-6-astra", 0.1, 10, Automatic},
		{"azure", "our-deployment", "gpt-6.2-astra", "gpt-6-astra", 0.05, 10, Breakpoints},
		{"", "claude-opus-6", "claude-opus-5-5", "claude-opus-4-1", 0.05, 15, Markers},
		{"anthropic", "cluade-opus-5", "claude-fable-5", "claude-opus-4-1", 0.1, 15, Markers},
		{"", "claude-opus-4", "claude-opus-4-1", "claude-opus-4-1", 0.1, 15, Markers},
		{"bedrock", "us.anthropic.claude-fable-6-v1:0", "claude-fable-5-2", "claude-fable-5", 0.025, 11, Markers},
		{"", "gemini-4.2-flash", "gemini-3.8-flash", "gemini-3.8-flash", 0.1, 0.75, Automatic},
		{"vertex", "gemini-5-zinc", "gemini-4-neon", "gemini-4-neon", 0.05, 3, Automatic},
		{"", "deepseek-flash-2", "deepseek-flash", "deepseek-flash", 0.02, 0.15, Automatic},
		{"openrouter", "deepseek/deepseek-v4-pro", "", "", 0.0333333333, 0.66, Automatic},
		{"openrouter", "anthropic/claude-sonnet-5.5", "", "", 0.05, 2, Markers},
		{"openrouter", "openai/gpt-6.2-sol", "", "", 0.05, 2, Breakpoints},
		{"openrouter", "nobody/odd", "gpt-6.2-astra", "claude-opus-4-1", 0.05, 15, Breakpoints},
		{"fireworks", "accounts/fireworks/models/kimi-k2p6", "", "", 0.168421053, 0.95, Automatic},
		{"fireworks", "accounts/fireworks/models/kimi-k3", "kimi-k2.6", "kimi-k2.6", 0.168421053, 0.95, Automatic},
		{"groq", "openai/gpt-oss-120b", "", "", 0.5, 0.15, Automatic},
		{"together", "zai-org/GLM-5.1", "gpt-oss-120b", "gpt-oss-120b", 0.5, 0.15, Automatic},
		{"qwen", "qwen3-max", "qwen3-coder-plus", "qwen3.6-max-preview", 0.1, 1.3, Markers},
		{"minimax", "MiniMax-M2.7", "", "", 0.2, 0.3, Markers},
		{"mistral", "mistral-large-4", "", "", 0.1, 0.68, Automatic},
		{"", "glm-9", "glm-5.3", "glm-5.3", 0.185714286, 1.40, Automatic},
		{"", "z-ai/glm-9:free", "glm-5.3", "glm-5.3", 0.185714286, 1.40, Automatic},
		{"", "claude-opus-5", "", "", 0.1, 5, Markers},
		{"", "gpt-4o", "", "gpt-6-astra", 0.5, 10, Automatic}, // its rules are known, its price is not
		// Files on a local server.
		{"", "deepseek-v4-flash-4bit", "", "", 0, 0, KV},
		{"", "mlx-community/GLM-9-8bit", "", "", 0, 0, KV},
		{"", "zai-org/glm-9", "", "", 0, 0, KV},
		{"mlx_lm", "glm-9", "", "", 0, 0, KV},
		{"ollama", "gpt-6.9-nova", "", "", 0, 0, KV},
	} {
		r := Lookup(tt.provider, tt.model, at)
		if r.AssumedFrom != tt.assumed || r.PricesOf != tt.prices || !near(r.Read, tt.read) || !near(r.Input, tt.input) ||
			r.Regime != tt.regime {
			t.Errorf("%q %q: got rules of %q, read %g, %v, and $%g of %q; want rules of %q, read %g, %v, and $%g of %q",
				tt.provider, tt.model, r.AssumedFrom, r.Read, r.Regime, r.Input, r.PricesOf, tt.assumed, tt.read, tt.regime,
				tt.input, tt.prices)
		}
	}
}

// TestAssumedAsItsRow: without its row, the model of Codex has the rules that its row says,
// so that it is edited and simulated as with it.
func TestAssumedAsItsRow(t *testing.T) {
	const name = "gpt-6.2-sol"
	at := day("2026-11-27")
	without := *BuiltIn().vendors["openai"]
	without.models = maps.Clone(without.models)
	delete(without.models, name)
	table := &Table{file: BuiltIn().file, vendors: map[string]*vendor{"openai": &without}}
	want, got := Lookup("openai", name, at), table.Lookup("openai", name, at)
	if got.AssumedFrom != "gpt-6.1-sol" || got.PricesOf != "gpt-5.6-sol" || got.Input != 4 {
		t.Errorf("got rules of %q, $%g of %q; want those of gpt-6.1-sol and $4 of gpt-5.6-sol", got.AssumedFrom, got.Input,
			got.PricesOf)
	}
	got.AssumedFrom, got.PricesOf, got.Input, got.Output, got.ContextWindow, got.row, got.observed = "", "", want.Input,
		want.Output, want.ContextWindow, want.row, nil
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestPeak: the prices of a vendor's peak hours hold on weekdays only.
func TestPeak(t *testing.T) {
	for at, want := range map[string]float64{
		"2026-11-27T00:59:59Z": 0.15, "2026-11-27T01:00:00Z": 0.30, "2026-11-27T04:00:00Z": 0.15,
		"2026-11-27T17:59:00+08:00": 0.30,
		"2026-11-28T02:00:00Z":      0.15, // a Saturday
	} {
		when, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		if r := Lookup("deepseek", "deepseek-flash", when); !near(r.Input, want) || !near(r.Output, 4*want) ||
			!near(r.Read, 0.02) {
			t.Errorf("%s: got $%g, $%g, read %g; want $%g", at, r.Input, r.Output, r.Read, want)
		}
	}
}

// wrap puts the text of a model into a file.
func wrap(vendor, family, models string) string {
	return `{"vendors": {"` + vendor + `": {"families": {"` + family + `": {` + models + `}}}}}`
}

func TestModelsFileRefused(t *testing.T) {
	const at = "mine.json: vendors: anthropic: families: claude-x: claude-x-1: "
	model := func(members string) string { return wrap("anthropic", "claude-x", `"claude-x-1": {`+members+`}`) }
	for _, tt := range []struct{ text, want string }{
		{"{\n", "mine.json:2: unexpected end of JSON input"},
		{`[]`, "mine.json: must be an object"},
		{`{"models": {}}`, "mine.json: models: unknown member; known are collected, vendors, engines"},
		{`{"collected": "today"}`, `mine.json: collected: "today" is not a day such as 2026-11-27`},
		{model(`"price": []`), at + `unknown field "price"`},
		{model(`"prices": [{"input": "1", "output": 5}]`), at + "prices.input: string is not a float64"},
		{
			model(`"prices": [{"input": 0, "output": 5}]`),
			at + "prices[0]: input: must be above 0 and at most $10000 for a million tokens, got 0",
		},
		{
			model(`"prices": [{"input": 1, "output": -5}]`),
			at + "prices[0]: output: must be between 0 and $10000 for a million tokens, got -5",
		},
		{
			model(`"prices": [{"input": 1, "output": 5, "read": 1.1}]`),
			at + "prices[0]: read: must be between 0 and $1 with this input price, got 1.1",
		},
		{
			model(`"prices": [{"input": 1, "output": 5}, {"input": 2, "output": 5}]`),
			at + "prices[1]: from: must be later than that of the price before it",
		},
		{
			model(`"prices": [{"from": "2026-13-01", "input": 1, "output": 5}]`),
			at + `"2026-13-01" is not a day such as 2026-11-27`,
		},
		{
			model(`"prices": [{"input": 1, "output": 5, "tier": {"above": 0, "input": 2, "output": 2}}]`),
			at + "prices[0]: tier: above must be a number of tokens, input and output multiples above 0 and at most 100",
		},
		{model(`"min_tokens": -1`), at + "min_tokens: must be between 0 and 1073741824 tokens, got -1"},
		{
			model(`"traits": ["odd"]`),
			at +
				`traits must be one of binds_reasoning, binds_thinking, keeps_thinking, refuses_forced_tools, refuses_prefill, ` +
				`signs_calls, got "odd"`,
		},
		{model(`"read": 2`), at + "read: must be between 0 and 1 times the input price, got 2"},
		{
			wrap("anthropic", "claude-x", `"claude-x-1": {}, "claude-x-1": {}`),
			"mine.json: vendors: anthropic: families: claude-x: claude-x-1: occurs twice",
		},
		{
			wrap("anthropic", "opus", `"claude-opus-6": {}`),
			`mine.json: vendors: anthropic: families: opus: claude-opus-6: belongs to family "claude-opus"`,
		},
		{
			wrap("openai", "gpt-x", `"gpt-7-x": {"cache": "odd"}`),
			`mine.json: vendors: openai: families: gpt-x: gpt-7-x: cache must be one of automatic, breakpoints, day, got "odd"`,
		},
		{
			`{"vendors": {"openai": {"caches": {"new": {"kind": "kv"}}}}}`,
			"mine.json: vendors: openai: caches: new: kind must be markers, automatic or breakpoints",
		},
		{`{"vendors": {"mine": {"like": ["nobody"]}}}`, `mine.json: vendors: mine: like: no vendor "nobody"`},
	} {
		if _, err := BuiltIn().With("mine.json", []byte(tt.text)); err == nil || err.Error() != tt.want {
			t.Errorf("%s: got %v, want %s", tt.text, err, tt.want)
		}
	}
}

// TestPricesOfUsers: members of a file take the place of those of the same model, from
// their days on, and no others.
func TestPricesOfUsers(t *testing.T) {
	table, err := BuiltIn().With("mine.json", []byte(`{"vendors": {
		"anthropic": {"families": {"claude-sonnet": {"claude-sonnet-4.6": {"min_tokens": 2048, "prices": [
			{"input": 2, "output": 12, "write": 2.5, "write_long": 4, "read": 0.2},
			{"from": "2027-01-01", "input": 1, "output": 6, "read": 0.1}]}}}},
		"openai": {"families": {"gpt": {"gpt-5.4": {"prices": [{"input": 2, "output": 10}]}}}},
		"other": {"families": {"kimi-k": {"Kimi/Kimi-K9": {"context_window": 262144, "prices": [{"input": 0.5, "output": 2, "read": 0.05}]}}}}
	}}`))
	if err != nil {
		t.Fatal(err)
	}
	now, later := day("2026-11-23"), day("2027-02-01")
	if r := table.Lookup("anthropic", "claude-sonnet-4-6", now); r.Input != 2 || r.Write1h != 2 || r.MinTokens != 2048 ||
		r.Regime != Markers || !r.RefusesPrefill {
		t.Errorf("a model of the file: %+v", r)
	}
	if r := table.Lookup("anthropic", "claude-sonnet-4-6", later); r.Input != 1 {
		t.Errorf("next year: input %g", r.Input)
	}
	if r := table.Lookup("", "kimi/kimi-k9", now); r.Input != 0.5 || r.Read != 0.1 || r.Write != 1 ||
		r.Regime != Automatic || r.TTL != 5*time.Minute || r.ContextWindow != 262144 {
		t.Errorf("a model of another host: %+v", r)
	}
	if r := table.Lookup("openai", "gpt-5.4", now); r.Input != 2 || r.Read != 0.1 || r.TTL != 24*time.Hour {
		t.Errorf("the price alone: %+v", r)
	}
	r, want := table.Lookup("anthropic", "claude-opus-5-5", now), Lookup("anthropic", "claude-opus-5-5", now)
	if want.row = r.row; r != want || r.Input == 0 {
		t.Errorf("a model that is not in the file: %+v, %+v expected", r, want)
	}
	if r := Lookup("", "kimi/kimi-k9", now); r.Regime != KV || r.Input != 0 {
		t.Errorf("the built-in table was changed: %+v", r)
	}
}

// TestDearest: models of unknown vendors have a price where a budget asks for one, and a
// file may have a dearer model.
func TestDearest(t *testing.T) {
	mine, err := BuiltIn().With("mine.json", []byte(`{"vendors": {
		"anthropic": {"families": {
			"claude-opus": {"claude-opus-4-1": {"prices": [{"input": 3, "output": 12}]}},
			"claude-atlas": {"claude-atlas-1": {"prices": [{"from": "2027-01-01", "input": 90, "output": 450}]}}}},
		"openai": {"families": {"gpt": {"gpt-5": {"prices": [{"input": 40, "output": 80, "tier": {"above": 300000, "input": 2, "output": 3}}]}}}}
	}}`))
	if err != nil {
		t.Fatal(err)
	}
	at := day("2026-11-26")
	for _, tt := range []struct {
		table           *Table
		provider, model string
		input, output   float64
		as              string
	}{
		{BuiltIn(), "", "some-model", 0, 0, ""},
		{BuiltIn().PricingAll(), "", "some-model", 15, 75, "claude-opus-4-1"},
		{BuiltIn().PricingAll(), "", "claude-opus-5", 5, 25, ""},
		{BuiltIn().PricingAll(), "mlx_lm", "claude-opus-6", 0, 0, ""},
		{mine, "", "claude-opus-6", 5, 25, "claude-opus-4-5"},
		{mine, "", "claude-next", 90, 450, "claude-atlas-1"},
		{mine, "", "gpt-9", 40, 80, "gpt-5"},
		{mine.PricingAll(), "", "some-model", 90, 450, "claude-atlas-1"},
	} {
		r := tt.table.Lookup(tt.provider, tt.model, at)
		if r.Input != tt.input || r.Output != tt.output || r.PricesOf != tt.as {
			t.Errorf("%q %q: got $%g and $%g of %q, want $%g and $%g of %q", tt.provider, tt.model, r.Input, r.Output,
				r.PricesOf, tt.input, tt.output, tt.as)
		}
	}
	if r := mine.Lookup("", "gpt-9", at); r.TierAbove != 300000 || r.TierInput != 2 || r.TierOutput != 3 {
		t.Errorf("got %+v, want the tier of the dearest model", r)
	}
	price := 1.0
	if r := Lookup("", "claude-opus-6", at).With(Override{Input: &price}); r.Input != 1 || r.PricesOf != "" {
		t.Errorf("a price of the operator's own: got %+v", r)
	}
}
