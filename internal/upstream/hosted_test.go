// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// TestHosts: without a preset, the host that was reached tells whose rules hold.
func TestHosts(t *testing.T) {
	at := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		hostport, model, provider string
		read                      float64
		regime                    pricing.Regime
	}{
		{"api.deepseek.com:443", "deepseek-flash-2", "deepseek", 0.02, pricing.Automatic},
		{"API.groq.com:443", "openai/gpt-oss-120b", "groq", 0.5, pricing.Automatic},
		{"api.fireworks.ai:443", "accounts/fireworks/models/kimi-k2p6", "fireworks", 0.16 / 0.95, pricing.Automatic},
		{"dashscope-intl.aliyuncs.com:443", "qwen3-coder-plus", "qwen", 0.1, pricing.Markers},
		{"ws-1.ap-southeast-1.maas.aliyuncs.com:443", "qwen3-coder-plus", "qwen", 0.1, pricing.Markers},
		{"claude.googleapis.com:443", "claude-opus-5-5", "anthropic", 0.05, pricing.Markers},
		{"openrouter.ai", "deepseek/deepseek-flash", "openrouter", 0.02, pricing.Automatic},
		{"ours.openai.azure.com:443", "gpt-5.5", "azure", 0.1, pricing.Automatic},
		{"bedrock-runtime.eu-central-1.amazonaws.com:443", "claude-opus-5-5", "bedrock", 0.05, pricing.Markers},
		{"127.0.0.1:8080", "glm-5.3", "zai", 0.26 / 1.4, pricing.Automatic}, // told by the model's name
		{"api.deepseek.com.example.org:443", "our-model", "", 0, pricing.KV},
	} {
		p := (*Upstream)(nil).Profile(Options{})
		rules := p.Rules()
		p.At("localhost:8080")
		rules(c.model, at)
		p.At(c.hostport)
		got := rules(c.model, at)
		if d := got.Read - c.read; got.Provider != c.provider || d > 1e-8 || d < -1e-8 || got.Regime != c.regime {
			t.Errorf("%s, %s: got the rules of %q, read %g, %v; want those of %q, read %g, %v", c.hostport, c.model,
				got.Provider, got.Read, got.Regime, c.provider, c.read, c.regime)
		}
	}
	stated := (&Upstream{Preset: "mlx_lm"}).Profile(Options{})
	stated.At("api.deepseek.com:443")
	if got := stated.Rules()("deepseek-flash", at); got.Regime != pricing.KV {
		t.Errorf("a stated preset: got %v, want that of a local server", got.Regime)
	}
}

// TestHosted: every hosted preset has rules and a price in the models file, is no local server, and
// is found by its hosts.
func TestHosted(t *testing.T) {
	n := 0
	for name, p := range presets {
		for _, host := range p.hosts {
			if got := PresetAt(host + ":443"); got != name {
				t.Errorf("%s: its host %s is that of %q", name, host, got)
			}
		}
		if !p.hosted {
			continue
		}
		n++
		u := &Upstream{Preset: name}
		if u.Local() || u.Official() {
			t.Errorf("%s: local %t, official %t; want neither", name, u.Local(), u.Official())
		}
		if r := u.Profile(Options{}).Rules()("some-model", time.Now()); r.Regime == pricing.KV || r.Input <= 0 ||
			r.Read > r.Write {
			t.Errorf("%s: got rules %+v for an unknown model, want a cache and a price", name, r)
		}
		for f := range p.bases {
			if !u.speaks(f) {
				t.Errorf("%s: has a path for %s, which it does not speak", name, f)
			}
		}
	}
	if n == 0 {
		t.Error("got no hosted preset")
	}
}

// TestThinkingOfCalls: DeepSeek refuses a message with calls and without its thinking.
func TestThinkingOfCalls(t *testing.T) {
	const calls = `"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]`
	d := (&Upstream{Preset: "deepseek"}).compat()
	for message, want := range map[string]string{
		`{"role":"assistant","content":"",` + calls +
			`}`: `{"reasoning_content":"","role":"assistant","content":"",` + calls + `}`,
		`{"role":"assistant","content":"","reasoning_content":"Hm.",` + calls +
			`}`: `{"role":"assistant","content":"","reasoning_content":"Hm.",` + calls + `}`,
		`{"role":"assistant","content":"","reasoning":"Hm.",` + calls +
			`}`: `{"role":"assistant","content":"","reasoning_content":"Hm.",` + calls + `}`,
		`{"role":"assistant","content":"tool_calls"}`: `{"role":"assistant",` +
			`"content":"tool_calls"}`,
	} {
		body := []byte(`{"model":"m","messages":[{"role":"user","content":"hi"},` + message + `]}`)
		v, err := wire.Parse(wire.OpenAIChat, body, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, view := range []*wire.View{nil, v} {
			got := string(d.apply(wire.OpenAIChat, body, view, func(string) []byte { return nil }).Bytes())
			if full := `{"model":"m","messages":[{"role":"user","content":"hi"},` + want + `]}`; got != full {
				t.Errorf("got %s, want %s", got, full)
			}
		}
	}
}

// TestMaxTokensOnly: Mistral refuses the newer name of max_tokens.
func TestMaxTokensOnly(t *testing.T) {
	const body = `{"model":"m","max_completion_tokens":7,"messages":[{"role":"user","content":"hi"}]}`
	for preset, want := range map[string]string{
		"mistral": `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":7}`, "xai": body,
	} {
		d := (&Upstream{Preset: preset}).compat()
		got := string(d.apply(wire.OpenAIChat, []byte(body), nil, func(string) []byte { return nil }).Bytes())
		if got != want {
			t.Errorf("%s: got %s, want %s", preset, got, want)
		}
	}
}
