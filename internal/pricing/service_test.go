// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"math"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

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
			t.Errorf("%s %s %q: got $%v and $%v, want $%v and $%v", tt.provider, tt.model, tt.service, r.Input, r.Output, tt.input, tt.output)
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
		{wire.Usage{Uncached: wire.MaxCount, Read: 600, Output: wire.MaxCount}, wire.Usage{Uncached: 400, Read: 600, Output: 50}, 50},
		{wire.Usage{Uncached: 10, Read: wire.MaxCount, Output: 51}, wire.Usage{Uncached: 10, Read: 990, Output: 50}, 50},
		{wire.Usage{Uncached: wire.MaxCount, Write5m: wire.MaxCount, Write1h: wire.MaxCount, Read: wire.MaxCount}, wire.Usage{Read: 1000}, 0},
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
