// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

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
		if got := matches(c.pattern, c.name); got != c.want {
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
