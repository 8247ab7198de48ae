// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package handler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/cachemodel"
	"github.com/caddy-llm-cache/caddy-llm-cache/translate"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// Upstream states what stands behind the handler: who, which format it
// speaks, and where its prompt cache differs from the built-in table.
type Upstream struct {
	// Preset names the kind of upstream: anthropic, openai, gemini, mlx_lm,
	// lm_studio, omlx, vllm_mlx, ollama, llama_cpp or letta. Default: inferred
	// from the model of each request; a model that no table knows counts as
	// one on a box whose cached prefix is free.
	Preset string `json:"preset,omitempty"`
	// Format is what the upstream speaks: anthropic, openai_chat,
	// openai_responses or gemini. Requests in another format are translated.
	// Default: what the preset speaks; without a preset, whatever comes.
	Format wire.Format `json:"format,omitempty"`
	// Models maps the models that clients ask for to those that the upstream
	// has, by the first entry that fits. Default: every model goes by its name.
	Models []ModelName `json:"models,omitempty"`
	// MaxTokensDefault bounds the answers to requests that give no bound, where
	// they are translated to the format anthropic, which demands one.
	// Default: 8192.
	MaxTokensDefault *int `json:"max_tokens_default,omitempty"`
	// CacheTTL is how long a cached prefix lives unused. Default: as the
	// built-in table has it.
	CacheTTL caddy.Duration `json:"cache_ttl,omitempty"`
	// CacheWrite is the price of writing a token to the cache, as a multiple
	// of an uncached input token. Default: as the built-in table has it.
	CacheWrite *float64 `json:"cache_write,omitempty"`
	// CacheRead is the price of reading a token from the cache, as a multiple
	// of an uncached input token. Default: as the built-in table has it.
	CacheRead *float64 `json:"cache_read,omitempty"`
	// CacheMinTokens is the shortest prefix that is cached, in tokens.
	// Default: as the built-in table has it.
	CacheMinTokens *int `json:"cache_min_tokens,omitempty"`
	// ContextWindow is the longest prompt that the model takes, in tokens.
	// Default: as the built-in table has it.
	ContextWindow *int `json:"context_window,omitempty"`
}

// presets are the names that [Upstream.Preset] takes: each is a provider of the
// cache model.
var presets = []string{"anthropic", "openai", "gemini", "mlx_lm", "lm_studio", "omlx", "vllm_mlx", "ollama", "llama_cpp", "letta"}

// Validate reports the first member that makes no sense. A nil Upstream is valid.
func (u *Upstream) Validate() error {
	if u == nil {
		return nil
	}
	if u.Preset != "" && !slices.Contains(presets, u.Preset) {
		return fmt.Errorf("preset: %q is none of %s", u.Preset, strings.Join(presets, ", "))
	}
	if u.Format != "" && !slices.Contains(translate.Formats, u.Format) {
		return fmt.Errorf("format: %q is none of %s, %s, %s, %s", u.Format, wire.Anthropic, wire.OpenAIChat, wire.OpenAIResponses, wire.Gemini)
	}
	for _, m := range u.Models {
		if m.From == "" || m.To == "" {
			return fmt.Errorf("models: %q to %q: a name is empty", m.From, m.To)
		}
	}
	if ttl := time.Duration(u.CacheTTL); ttl != 0 && (ttl < time.Second || ttl > 30*24*time.Hour) {
		return fmt.Errorf("cache_ttl: %s is not between 1s and 30d", ttl)
	}
	for _, f := range []struct {
		name  string
		value *float64
		max   float64
	}{{"cache_write", u.CacheWrite, 10}, {"cache_read", u.CacheRead, 1}} {
		if f.value != nil && !(*f.value >= 0 && *f.value <= f.max) {
			return fmt.Errorf("%s: %v is not between 0 and %v", f.name, *f.value, f.max)
		}
	}
	for _, n := range []struct {
		name     string
		value    *int
		min, max int
	}{{"cache_min_tokens", u.CacheMinTokens, 0, 1 << 20}, {"context_window", u.ContextWindow, 256, 1 << 30}, {"max_tokens_default", u.MaxTokensDefault, 1, 1 << 30}} {
		if n.value != nil && (*n.value < n.min || *n.value > n.max) {
			return fmt.Errorf("%s: %d is not between %d and %d", n.name, *n.value, n.min, n.max)
		}
	}
	return nil
}

// rules returns the cache rules of the upstream as a function of the model.
func (u *Upstream) rules() func(model string, at time.Time) cachemodel.Rules {
	if u == nil {
		return func(model string, at time.Time) cachemodel.Rules { return cachemodel.Lookup("", model, at) }
	}
	over := cachemodel.Override{
		Write:         u.CacheWrite,
		Read:          u.CacheRead,
		MinTokens:     u.CacheMinTokens,
		ContextWindow: u.ContextWindow,
	}
	if u.CacheTTL != 0 {
		ttl := time.Duration(u.CacheTTL)
		over.TTL = &ttl
	}
	return func(model string, at time.Time) cachemodel.Rules {
		return cachemodel.Lookup(u.Preset, u.model(model), at).With(over)
	}
}
