// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"regexp"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// A * in the upstream's name stands for what the pattern's * matches.
func TestModelRenamed(t *testing.T) {
	u := &Upstream{Models: []ModelName{
		{From: "local/*", To: "*"}, {From: "box-*-fast", To: "mlx/*-4bit"}, {From: "claude-*", To: "default_model"},
	}}
	if err := u.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"local/qwen3:8b": "qwen3:8b", "box-glm-fast": "mlx/glm-4bit", "claude-opus-5-5": "default_model", "gpt-6": "gpt-6",
	} {
		if got := u.Model(name); got != want {
			t.Errorf("got %q for %q, want %q", got, name, want)
		}
	}
	for _, m := range []ModelName{{"local", "*"}, {"*/*", "*"}, {"local/*", "*/*"}} {
		if err := (&Upstream{Models: []ModelName{m}}).Validate(); err == nil {
			t.Errorf("got no error for %q to %q, want one", m.From, m.To)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"claude-*", "claude-opus-5", true},
		{"claude-*", "claud", false},
		{"*", "", true},
		{"*-mini", "gpt-5-mini", true},
		{"*-mini", "gpt-5-mini-2", false},
		{"a*b*c", "a/x/b/y/c", true},
		{"a*b*c", "acb", false},
		{"a*a", "a", false},
		{"m", "m", true},
		{"m", "mm", false},
	} {
		if got := Matches(c.pattern, c.name); got != c.want {
			t.Errorf("%q fits %q: %v", c.name, c.pattern, got)
		}
	}
}

func TestTarget(t *testing.T) {
	off := false
	for _, c := range []struct {
		u          *Upstream
		translate  *bool
		from, want wire.Format
		understood bool
	}{
		{nil, nil, wire.Gemini, wire.Gemini, true},
		{&Upstream{}, nil, wire.Gemini, wire.Gemini, true},
		{&Upstream{Preset: "mlx_lm"}, nil, wire.Anthropic, wire.OpenAIChat, true},
		{&Upstream{Preset: "mlx_lm"}, &off, wire.Anthropic, wire.Anthropic, false},
		{&Upstream{Preset: "llama_cpp"}, nil, wire.Anthropic, wire.OpenAIChat, true},
		{&Upstream{Preset: "omlx"}, nil, wire.Anthropic, wire.Anthropic, true},
		{&Upstream{Preset: "llama_cpp", Format: wire.OpenAIChat}, nil, wire.Anthropic, wire.OpenAIChat, true},
		{&Upstream{Preset: "openai"}, nil, wire.Anthropic, wire.OpenAIResponses, true},
		{&Upstream{Preset: "openai"}, nil, wire.OpenAIChat, wire.OpenAIChat, true},
		{&Upstream{Preset: "gemini"}, nil, wire.Interactions, wire.Interactions, true},
		{&Upstream{Preset: "gemini"}, nil, wire.Anthropic, wire.Gemini, true},
		{&Upstream{Preset: "openai"}, nil, wire.Interactions, wire.OpenAIResponses, true},
	} {
		p := c.u.Profile(Options{Translate: c.translate})
		if got := p.Target(c.from); got != c.want || p.Understands(c.from) != c.understood {
			t.Errorf("%+v: %s becomes %s, want %s", c.u, c.from, got, c.want)
		}
	}
}

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
	if b := (&Upstream{
		Preset:      "openai",
		MaxToolName: &limit,
	}).Profile(Options{}).ToolBounds(wire.Anthropic); b.Name != limit {
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
