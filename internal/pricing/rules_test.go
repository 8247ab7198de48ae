// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"math"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

func day(s string) time.Time {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		panic(err)
	}
	return t
}

var today = day("2026-11-20")

// Lifetimes of the hosted caches.
const (
	shortTTL      = 5 * time.Minute
	longTTL       = time.Hour
	memoryTTL     = 5 * time.Minute
	dayTTL        = 24 * time.Hour
	breakpointTTL = 30 * time.Minute
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestLookupNames(t *testing.T) {
	for _, c := range []struct {
		provider, model string
		want, as        string // provider and model
		collapse        bool
	}{
		{"", "claude-opus-4-5", "anthropic", "claude-opus-4-5", true},
		{"", "claude-sonnet-4-5-20250929", "anthropic", "claude-sonnet-4-5", true},
		{"", "anthropic/claude-opus-4-5", "anthropic", "claude-opus-4-5", true},
		{"", "openrouter/anthropic/claude-opus-4.5:beta", "anthropic", "claude-opus-4-5", true},
		{"", "us.anthropic.claude-opus-4-7-20260416-v1:0", "bedrock", "claude-opus-4-7", false},
		{"", "global.anthropic.claude-haiku-4-5-20251001-v1:0", "bedrock", "claude-haiku-4-5", false},
		{"", "claude-opus-4-5@20251101", "vertex", "claude-opus-4-5", false},
		{"", "claude-sonnet-4-6[1m]", "anthropic", "claude-sonnet-4-6", true},
		{"", "claude-fable-5-2", "anthropic", "claude-fable-5-2", true},
		{"", "Claude-Opus-5-5-latest", "anthropic", "claude-opus-5-5", true},
		{"", "claude-3-5-sonnet-20241022", "anthropic", "claude-sonnet-3-5", true},
		{"", "openai/gpt-6.1-sol", "openai", "gpt-6.1-sol", false},
		{"", "gpt-5.4-2026-03-05", "openai", "gpt-5.4", false},
		{"", "o3-2025-04-16", "openai", "o3", false},
		{"", "models/gemini-3.1-pro", "gemini", "gemini-3.1-pro", false},
		{"", "gemini-3.1-pro-preview-customtools", "gemini", "gemini-3.1-pro", false},
		{"", "publishers/google/models/gemini-3.8-flash-preview-09-2026", "gemini", "gemini-3.8-flash", false},
		{"gemini", "gemini-3.8-flash-001", "gemini", "gemini-3.8-flash", false},
		{"", "gpt-oss-20b", "", "gpt-oss-20b", false},
		{"", "mlx-community/Qwen3-Coder-30B", "", "mlx-community/qwen3-coder-30b", false},
		{"mlx_lm", "claude-opus-4-5", "mlx_lm", "claude-opus-4-5", false},
	} {
		r := Lookup(c.provider, c.model, today)
		if r.Provider != c.want || r.Model != c.as || r.CollapseRuns != c.collapse {
			t.Errorf("%q %q: got %q %q, collapse %v", c.provider, c.model, r.Provider, r.Model, r.CollapseRuns)
		}
	}
}

func TestLookupFacts(t *testing.T) {
	for _, c := range []struct {
		model        string
		at           time.Time
		regime       Regime
		read, write  float64
		input        float64
		ttl          time.Duration
		min          int
		binds, keeps bool
	}{
		{"claude-opus-4-5", today, Markers, 0.1, 1.25, 5, shortTTL, 4096, false, true},
		{"claude-opus-4-7", today, Markers, 0.1, 1.25, 5, shortTTL, 2048, false, true},
		{"global.anthropic.claude-opus-4-7-v1:0", today, Markers, 0.1, 1.25, 5, shortTTL, 4096, false, true},
		{"claude-sonnet-4-5", today, Markers, 0.1, 1.25, 3, shortTTL, 1024, false, false},
		{"claude-sonnet-4-6", today, Markers, 0.1, 1.25, 3, shortTTL, 1024, false, true},
		{"claude-opus-5-5", today, Markers, 0.05, 1.25, 4, shortTTL, 512, true, true},
		{"claude-fable-5-2", today, Markers, 0.025, 1.25, 8, shortTTL, 512, true, true},
		{"claude-mythos-5", today, Markers, 0.1, 1.25, 10, shortTTL, 512, false, true},
		{"claude-sonnet-5-5", day("2026-10-06"), Markers, 0.1, 1.25, 2, shortTTL, 512, true, true},
		{"claude-sonnet-5-5", day("2026-10-07"), Markers, 0.05, 1.25, 2, shortTTL, 512, true, true},
		{"claude-sonnet-5-5", day("2026-01-01"), Markers, 0.1, 1.25, 2, shortTTL, 512, true, true}, // before the first row
		{"claude-haiku-4-5", today, Markers, 0.1, 1.25, 1, shortTTL, 4096, false, false},
		{"claude-opus-6", today, Markers, 0.05, 1.25, 15, shortTTL, 512, true, true},   // unknown, newer
		{"claude-opus-4", today, Markers, 0.1, 1.25, 15, shortTTL, 1024, false, false}, // unknown, older
		{"claude-3-haiku", today, Markers, 0.1, 1.25, 1, shortTTL, 4096, false, false}, // unknown, old
		{"claude-next", today, Markers, 0.05, 1.25, 15, shortTTL, 512, true, true},     // unknown, no version
		{"gpt-4o", today, Automatic, 0.5, 1, 10, memoryTTL, 1024, false, true},
		{"o3", today, Automatic, 0.25, 1, 10, memoryTTL, 1024, false, true},
		{"gpt-4.1", today, Automatic, 0.25, 1, 2, dayTTL, 1024, false, true},
		{"gpt-4.1", day("2026-05-28"), Automatic, 0.25, 1, 2, memoryTTL, 1024, false, true},
		{"gpt-5-mini", today, Automatic, 0.1, 1, 10, dayTTL, 1024, false, true},
		{"gpt-5.4", day("2026-05-29"), Automatic, 0.1, 1, 2.5, dayTTL, 1024, false, true},
		{"gpt-5.5", today, Automatic, 0.1, 1, 5, dayTTL, 1024, false, true},
		{"gpt-5.6-sol", today, Breakpoints, 0.1, 1.25, 4, breakpointTTL, 1024, false, true},
		{"gpt-6.1-terra", today, Breakpoints, 0.05, 1.25, 1, breakpointTTL, 1024, false, true},
		{"gpt-7", today, Breakpoints, 0.05, 1.25, 5, breakpointTTL, 1024, false, true},
		{"gemini-4-argon", today, Automatic, 0.05, 1, 2, memoryTTL, 4096, false, true},
		{"gemini-4-argon", day("2026-12-01"), Automatic, 0.05, 1, 4, memoryTTL, 4096, false, true},
		{"gemini-2.5-flash", today, Automatic, 0.1, 1, 0.75, memoryTTL, 2048, false, true},
		{"qwen3-coder", today, KV, 0, 1, 0, 0, 0, false, true},
	} {
		r := Lookup("", c.model, c.at)
		if r.Regime != c.regime || !near(r.Read, c.read) || !near(r.Write, c.write) || !near(r.Input, c.input) ||
			r.TTL != c.ttl || r.MinTokens != c.min || r.BindsThinking != c.binds || r.KeepsThinking != c.keeps {
			t.Errorf("%s at %s: %+v", c.model, c.at.Format(time.DateOnly), r)
		}
		if takes := r.Regime == Markers || r.Regime == Breakpoints; takes != (r.Markers == 4) {
			t.Errorf("%s: %d markers in regime %v", c.model, r.Markers, r.Regime)
		}
	}
}

func TestLookupContext(t *testing.T) {
	for model, want := range map[string]int{
		"claude-sonnet-4-5": 200000, "claude-sonnet-4-5[1m]": 1000000, "claude-haiku-4-5": 200000, "some-model": 0,
	} {
		if got := Lookup("", model, today).ContextWindow; got != want {
			t.Errorf("%s: context window %d, want %d", model, got, want)
		}
	}
}

func TestTiers(t *testing.T) {
	haiku := Lookup("", "claude-haiku-5-5", today)
	low, high := wire.Usage{Read: 90000, Uncached: 10000, Output: 1000},
		wire.Usage{Read: 90000, Uncached: 10001, Output: 1000}
	if got := haiku.Cost(low); !near(got, 19000) {
		t.Errorf("cost below the tier: %g", got)
	}
	if got := haiku.Cost(high); !near(got, 5*19001) {
		t.Errorf("cost above the tier: %g", got)
	}
	if got, want := haiku.CostOutput(high), 1000*2.50/0.10; !near(got, want) {
		t.Errorf("output above the tier: %g, want %g", got, want)
	}
	if r := haiku.At(100001); !near(r.Input, 0.5) || !near(r.Output, 2.5) || !near(r.Read, 0.1) || r.TierAbove != 0 {
		t.Errorf("upper tier: %+v", r)
	}
	sol := Lookup("openai", "gpt-6.1-sol", today)
	if r := sol.At(272001); !near(r.Input, 4) || !near(r.Input*r.Read, 0.20) || !near(r.Input*r.Write, 5) ||
		!near(r.Output, 15) {
		t.Errorf("upper tier: %+v", r)
	}
	if r := sol.At(272000); r != sol {
		t.Errorf("at the limit: %+v", r)
	}
}

func TestCost(t *testing.T) {
	r := Lookup("", "claude-opus-5-5", today)
	u := wire.Usage{Uncached: 100, Write5m: 1000, Write1h: 500, Read: 20000, Output: 400}
	if got := r.Cost(u); !near(got, 100+1250+1000+1000) {
		t.Errorf("cost %g", got)
	}
	if got := r.CostOutput(u); !near(got, 2000) {
		t.Errorf("output %g", got)
	}
	if got := r.Dollars(u); !near(got, 5350*4/1e6) {
		t.Errorf("dollars %g", got)
	}
	if got := Lookup("mlx_lm", "any", today).CostOutput(u); got != 0 {
		t.Errorf("output without prices: %g", got)
	}
	if got := Lookup("mlx_lm", "any", today).Cost(u); !near(got, 1600) {
		t.Errorf("an engine's cost %g: all but what it reuses", got)
	}
}

func TestOverride(t *testing.T) {
	read, write, ttl, least := 0.5, 1.5, time.Minute, 10
	base := Lookup("", "claude-haiku-5-5", today)
	r := base.With(Override{Read: &read, Write: &write, TTL: &ttl, MinTokens: &least})
	if r.Read != read || r.Write != write || r.TTL != ttl || r.MinTokens != least || r.Write1h != base.Write1h ||
		r.TierAbove == 0 {
		t.Errorf("override: %+v", r)
	}
	if r := base.With(Override{}); r != base {
		t.Errorf("an empty override changed %+v to %+v", base, r)
	}
	input := 3.0
	if r := base.With(Override{Input: &input}); r.TierAbove != 0 || r.Input != 3 {
		t.Errorf("own price: %+v", r)
	}
	nan, minus, past := math.NaN(), -1, -time.Second
	for _, o := range []Override{{Read: &nan}, {Markers: &minus}, {TTL: &past}} {
		if o.Validate() == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
	if o := (Override{Read: &read, TTL: &ttl, MinTokens: &least}); o.Validate() != nil {
		t.Error(o.Validate())
	}
}

func TestRegimeText(t *testing.T) {
	for r := KV; r <= Breakpoints; r++ {
		text, _ := r.MarshalText()
		var back Regime
		if err := back.UnmarshalText(text); err != nil || back != r {
			t.Errorf("%s: read back as %v, %v", text, back, err)
		}
	}
	if err := new(Regime).UnmarshalText([]byte("psychic")); err == nil {
		t.Error("an unknown regime was accepted")
	}
}

// TestServed: services cost the multiple of the list price that their provider publishes.
func TestServed(t *testing.T) {
	at := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)
	tests := []struct {
		provider, model string
		service         wire.Service
		input, output   float64
	}{
		{"anthropic", "claude-opus-5-5", wire.Standard, 4, 20},
		{"anthropic", "claude-opus-5-5", wire.Fast, 8, 40},
		{"anthropic", "claude-opus-4-6", wire.Fast, 30, 150},
		{"anthropic", "claude-opus-5-5", wire.Batch | wire.Regional, 2.2, 11},
		{"anthropic", "claude-opus-4-1", wire.Regional, 15, 75},
		{"anthropic", "claude-opus-5-5", wire.Priority, 4, 20},
		{"bedrock", "global.anthropic.claude-opus-4-8-v1:0", 0, 5, 25},
		{"bedrock", "us.anthropic.claude-opus-4-8-v1:0", 0, 5.5, 27.5},
		{"bedrock", "anthropic.claude-opus-4-1-20250805-v1:0", 0, 15, 75},
		{"vertex", "claude-opus-4-8", wire.Regional, 5.5, 27.5},
		{"openai", "gpt-6.1-sol", wire.Flex, 1, 5},
		{"openai", "gpt-6.1-sol", wire.Priority, 4, 20},
		{"openai", "gpt-5.5", wire.Priority, 12.5, 75},
		{"gemini", "gemini-3.8-flash", wire.Priority, 1.35, 6.75},
		{"gemini", "gemini-3.8-flash", wire.Batch, 0.375, 1.875},
		{"ollama", "qwen3", wire.Priority, 0, 0},
	}
	for _, tt := range tests {
		r := Lookup(tt.provider, tt.model, at).Served(tt.service)
		if math.Abs(r.Input-tt.input) > 1e-9 || math.Abs(r.Output-tt.output) > 1e-9 {
			t.Errorf("%s %s %q: got $%v and $%v, want $%v and $%v", tt.provider, tt.model, tt.service, r.Input, r.Output,
				tt.input, tt.output)
		}
	}
}

// TestBound: no usage is longer than the window and the bound on the answer.
func TestBound(t *testing.T) {
	r := Rules{ContextWindow: 1000}
	for _, tt := range []struct {
		u, want wire.Usage
		limit   int
	}{
		{wire.Usage{Uncached: 400, Read: 600, Output: 50}, wire.Usage{Uncached: 400, Read: 600, Output: 50}, 50},
		{
			wire.Usage{Uncached: wire.MaxCount, Read: 600, Output: wire.MaxCount},
			wire.Usage{Uncached: 400, Read: 600, Output: 50},
			50,
		},
		{wire.Usage{Uncached: 10, Read: wire.MaxCount, Output: 51}, wire.Usage{Uncached: 10, Read: 990, Output: 50}, 50},
		{
			wire.Usage{Uncached: wire.MaxCount, Write5m: wire.MaxCount, Write1h: wire.MaxCount, Read: wire.MaxCount},
			wire.Usage{Read: 1000},
			0,
		},
		{wire.Usage{Output: 5000}, wire.Usage{Output: 1000}, -1},
	} {
		got, bounded := r.Bound(tt.u, tt.limit)
		if got != tt.want || bounded != (tt.u != tt.want) {
			t.Errorf("%+v: got %+v (bounded %t), want %+v", tt.u, got, bounded, tt.want)
		}
	}
	if got, _ := new(Rules).Bound(wire.Usage{Uncached: wire.MaxCount}, 0); got.Uncached != maxWindow {
		t.Errorf("an unknown window: got %+v", got)
	}
}

// TestObserved: answers correct the lifetime and the minimum of an assumed model within bounds, and
// of no other.
func TestObserved(t *testing.T) {
	const m = time.Minute
	lost := func(pause time.Duration) Sighting { return Sighting{Left: 9000, Pause: pause} }
	found := func(pause time.Duration) Sighting { return Sighting{Left: 9000, Found: 9000, Held: 9500, Pause: pause} }
	for _, c := range []struct {
		name      string
		from      string
		sightings []Sighting
		ttl       time.Duration
		tokens    int
	}{
		{"nothing seen", "a", nil, 30 * m, 1024},
		{"found after a longer pause", "a", []Sighting{found(45 * m), found(5 * m)}, 45 * m, 1024},
		{"found after days", "a", []Sighting{found(72 * time.Hour)}, 24 * time.Hour, 1024},
		{"lost", "a", []Sighting{lost(20 * m), found(2 * m), lost(8 * m), lost(9 * m)}, 8 * m, 1024},
		{
			"found after a longer pause than it was lost", "a",
			[]Sighting{lost(6 * m), found(10 * m), lost(8 * m)},
			30 * m, 1024,
		},
		{"lost later than that", "a", []Sighting{lost(6 * m), found(10 * m), lost(15 * m)}, 15 * m, 1024},
		{"lost at once", "a", []Sighting{{Left: 3000, Pause: time.Second}, {Left: 2000, Pause: time.Second}}, 30 * m, 3001},
		{"a miss at once of a long prompt", "a", []Sighting{{Left: 90000, Pause: time.Second}}, 30 * m, 8192},
		{"held though short", "a", []Sighting{{Left: 3000, Pause: time.Second}, {Held: 2048}}, 30 * m, 2048},
		{"held though very short", "a", []Sighting{{Held: 100}}, 30 * m, 256},
		{"a model of its own rules", "", []Sighting{found(45 * m), {Held: 300}}, 30 * m, 1024},
	} {
		r := Rules{Provider: "p", Model: "m", TTL: 30 * m, MinTokens: 1024}
		if c.from != "" {
			r.observed = new(Observed)
		}
		for _, s := range c.sightings {
			corrected := r.Corrected()
			corrected.Observe(s)
		}
		if got := r.Corrected(); got.TTL != c.ttl || got.MinTokens != c.tokens {
			t.Errorf("%s: got %v and %d tokens, want %v and %d", c.name, got.TTL, got.MinTokens, c.ttl, c.tokens)
		}
		other := r
		other.Model = "n"
		if got := other.Corrected(); got != other {
			t.Errorf("%s: another model got %+v, want %+v", c.name, got, other)
		}
	}
}
