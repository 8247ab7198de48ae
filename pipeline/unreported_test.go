// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// TestBillWithoutUsage: a response without complete usage is charged by the sent prompt and the
// received output.
func TestBillWithoutUsage(t *testing.T) {
	const text = 4000 // bytes of the response, at 0.27 tokens each
	said := strings.Repeat("word ", text/5)
	tests := []struct {
		name   string
		turn   wire.Turn
		output int64 // -1: as reported
		want   string
	}{
		{"a whole answer without usage", wire.Turn{Done: true, Text: said}, 1080, "estimated"},
		{"an answer that was cut before its usage", wire.Turn{Text: said}, 1080, "estimated"},
		{"a cut answer that told its beginning", wire.Turn{Text: said, Usage: wire.Usage{Write5m: 700, Output: 1, Reported: true}}, 1080, "in part"},
		{"a cut answer that told more than came", wire.Turn{Text: said, Usage: wire.Usage{Write5m: 700, Output: 5000, Reported: true}}, 5000, "reported"},
		{"a call that was cut", wire.Turn{Calls: []wire.Call{{Name: "Write", Arguments: said}}}, 1121, "estimated"},
		{"thinking that was cut", wire.Turn{Thinking: said}, 1080, "estimated"},
		{"a usage without the answer's length", wire.Turn{Done: true, Text: said, Usage: wire.Usage{Write5m: 700, Reported: true}}, 1080, "in part"},
		{"a usage of the answer alone", wire.Turn{Done: true, Text: said, Usage: wire.Usage{Output: 900, Reported: true}}, 900, "prompt"},
		{"nothing but the header", wire.Turn{}, 0, "estimated"},
		{"an error in place of an answer", wire.Turn{ErrorType: "overloaded_error"}, 0, "nothing"},
		{"an error amid the answer", wire.Turn{ErrorType: "overloaded_error", Text: said}, 1080, "estimated"},
		{"a usage as it should be", wire.Turn{Done: true, Text: said, Usage: wire.Usage{Write5m: 700, Output: 3, Reported: true}}, 3, "reported"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript(t, Options{Policy: Observe}, keeping)
			s.prompt(long("a question"))
			x := s.send(tt.turn)
			b := x.Bill(&tt.turn)
			if got, want := b.Estimated, tt.want == "estimated" || tt.want == "in part" || tt.want == "prompt"; got != want {
				t.Errorf("got estimated %t, want %t", got, want)
			}
			prompt := int64(x.Prompt.OriginalTokens)
			switch tt.want {
			case "nothing":
				prompt = 0
			case "in part", "reported":
				prompt = 700
			}
			if prompt == 0 != (tt.want == "nothing") {
				t.Fatal("the prompt has no length")
			}
			if want := (wire.Usage{Write5m: prompt, Output: tt.output, Reported: tt.turn.Usage.Reported}); b.Actual != want {
				t.Errorf("got %+v, want %+v", b.Actual, want)
			}
			if want := 1.25*float64(prompt) + keeping.CostOutput(wire.Usage{Output: tt.output}); b.Cost != want || b.ClientCost != want {
				t.Errorf("got cost %v, client's %v, want %v", b.Cost, b.ClientCost, want)
			}
		})
	}
}

// TestExpectedUsage: the cache entry of the last response counts as read if the prompt continues
// it. The rest counts by the provider's price.
func TestExpectedUsage(t *testing.T) {
	automatic := pricing.Rules{Regime: pricing.Automatic, Write: 1, Read: 0.1, TTL: keeping.TTL, MinTokens: 1024}
	breakpoints := automatic
	breakpoints.Regime, breakpoints.Write = pricing.Breakpoints, 1.25
	tests := []struct {
		name  string
		rules pricing.Rules
		pause bool
		first wire.Usage
		want  func(prompt int64) wire.Usage
	}{
		{"markers", keeping, false, wire.Usage{Write5m: 3000}, func(p int64) wire.Usage { return wire.Usage{Read: 3000, Write5m: p - 3000} }},
		{"expired", keeping, true, wire.Usage{Write5m: 3000}, func(p int64) wire.Usage { return wire.Usage{Write5m: p} }},
		{"automatic", automatic, false, wire.Usage{Uncached: 3000}, func(p int64) wire.Usage { return wire.Usage{Read: 3000, Uncached: p - 3000} }},
		{"breakpoints", breakpoints, false, wire.Usage{Write5m: 3000}, func(p int64) wire.Usage { return wire.Usage{Read: 3000, Write5m: p - 3000} }},
		{"too short to be cached", automatic, false, wire.Usage{Uncached: 300}, func(p int64) wire.Usage { return wire.Usage{Uncached: p} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript(t, Options{Policy: Observe}, tt.rules)
			s.prompt(strings.Repeat(long("a question"), 4))
			tt.first.Reported = true
			s.send(wire.Turn{Done: true, Text: "a", Usage: tt.first})
			s.turn(0, "/src/a.go", strings.Repeat(long("f"), 4))
			if tt.pause {
				s.now = s.now.Add(3 * tt.rules.TTL)
			}
			cut := wire.Turn{}
			x := s.send(cut)
			got, want := x.Bill(&cut).Actual, tt.want(int64(x.Prompt.OriginalTokens))
			if got != want || got.Prompt() < 1000 {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}
