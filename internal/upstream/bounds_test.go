// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"regexp"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// The bounds are those of the upstream's API, not of the client's format.
func TestToolBounds(t *testing.T) {
	limit := 16
	for _, c := range []struct {
		name   string
		u      *Upstream
		client wire.Format
		count  int
		name64 bool // whether a name of 64 bytes fits, but none of 65
	}{
		{"nothing stated", nil, wire.OpenAIChat, 128, true},
		{"nothing stated", nil, wire.Anthropic, 0, false},
		{"translated", &Upstream{Preset: "openai"}, wire.Anthropic, 128, true},
		{"translated back", &Upstream{Preset: "anthropic"}, wire.OpenAIResponses, 0, false},
		{"Gemini", &Upstream{Preset: "gemini"}, wire.Anthropic, 512, true},
		{"a local server", &Upstream{Preset: "mlx_lm"}, wire.Anthropic, 0, false},
	} {
		b := c.u.Profile(Options{}).ToolBounds(c.client)
		if b.Count != c.count || (b.Name == 64) != c.name64 {
			t.Errorf("%s, %s: got %+v, want a count of %d", c.name, c.client, b, c.count)
		}
	}
	if b := (&Upstream{Preset: "openai", NameLimit: &limit}).Profile(Options{}).ToolBounds(wire.Anthropic); b.Name != limit {
		t.Errorf("got names of %d, want %d", b.Name, limit)
	}
	for f, b := range toolBounds {
		if !b.Room(0, 0, pipeline.ExpandTool, "") {
			t.Errorf("%s: %s does not fit into %+v", f, pipeline.ExpandTool, b)
		}
	}
	// The maximum of Claude plans, and the longest name that all providers take.
	if !regexp.MustCompile(`^mcp__[a-zA-Z0-9_-]+__[a-zA-Z0-9_-]+$`).MatchString(pipeline.ExpandTool) {
		t.Errorf("got %s, want mcp__server__tool", pipeline.ExpandTool)
	}
}
