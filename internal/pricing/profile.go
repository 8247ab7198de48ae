// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Profile is a provider, a model and a client to replay conversations against.
type Profile struct {
	// Name is the name by which a user asks for the profile.
	Name string
	// Doc describes the profile in one line.
	Doc string
	// Provider and Model are arguments of [Lookup]. Requests name the same model.
	Provider, Model string
	// Format is the wire format that client and provider speak. Clients of the
	// Anthropic format set cache markers, those of the Responses format send
	// the model's reasoning back.
	Format wire.Format
	// LongTTL reports that the client's markers ask for the long lifetime.
	LongTTL bool
	// Adaptive reports that the client's requests carry adaptive thinking. With a
	// fixed budget instead, the API refuses answers without thinking at places
	// where the recorded conversations have them.
	Adaptive bool
	// Prices are those of models. Default: the built-in table.
	Prices *Table
}

var profiles = []Profile{
	{
		Name: "anthropic-5m", Doc: "Claude that does not check thinking, read 0.1, markers of 5 minutes",
		Provider: "anthropic", Model: "claude-sonnet-4-6", Format: wire.Anthropic, Adaptive: true,
	},
	{
		Name: "anthropic-1h", Doc: "the same model, markers of 1 hour at twice the input price",
		Provider: "anthropic", Model: "claude-sonnet-4-6", Format: wire.Anthropic, Adaptive: true, LongTTL: true,
	},
	{
		Name: "opus-5.5", Doc: "Claude Opus 5.5: thinking bound to its past, read 0.05",
		Provider: "anthropic", Model: "claude-opus-5-5", Format: wire.Anthropic, Adaptive: true,
	},
	{
		Name: "fable-5.2", Doc: "Claude Fable 5.2: thinking bound to its past on every account, read 0.025",
		Provider: "anthropic", Model: "claude-fable-5-2", Format: wire.Anthropic, Adaptive: true,
	},
	{
		Name: "openai", Doc: "GPT-5.6 and GPT-6: writing at 1.25, breakpoints set by the provider, read 0.1",
		Provider: "openai", Model: "gpt-6-sol", Format: wire.OpenAIChat,
	},
	{
		Name: "gpt-6.1", Doc: "GPT-6.1: the same, read 0.05",
		Provider: "openai", Model: "gpt-6.1-sol", Format: wire.OpenAIChat,
	},
	{
		Name: "gpt-6.2", Doc: "GPT-6.2 by the Responses API, as Codex asks for it: read 0.05, reasoning goes back",
		Provider: "openai", Model: "gpt-6.2-sol", Format: wire.OpenAIResponses,
	},
	{
		Name:     "openai-responses",
		Doc:      "GPT-6 by the Responses API: reasoning goes back, and is lost where its past is edited",
		Provider: "openai", Model: "gpt-6-sol", Format: wire.OpenAIResponses,
	},
	{
		Name: "gemini", Doc: "Gemini 3.1 Pro: implicit caching, every prefix found for five minutes, read 0.1, calls signed",
		Provider: "gemini", Model: "gemini-3.1-pro", Format: wire.Gemini,
	},
	{
		Name:     "interactions",
		Doc:      "the same model by the Interactions API, nothing stored: thoughts go back with their signatures",
		Provider: "gemini", Model: "gemini-3.1-pro", Format: wire.Interactions,
	},
	{
		Name: "deepseek", Doc: "DeepSeek Flash: a cache of whole requests on disk, writing free, read 0.02",
		Provider: "deepseek", Model: "deepseek-flash", Format: wire.OpenAIChat,
	},
	{
		Name: "qwen", Doc: "Qwen at Model Studio by the Messages API: markers of 5 minutes, read 0.1",
		Provider: "qwen", Model: "qwen3.6-max-preview", Format: wire.Anthropic, Adaptive: true,
	},
	{
		Name:     "openrouter",
		Doc:      "Claude behind OpenRouter: markers of 5 minutes, each block counts in the look-back, read 0.1",
		Provider: "openrouter", Model: "anthropic/claude-sonnet-4.6", Format: wire.Anthropic, Adaptive: true,
	},
	{
		Name: "kv", Doc: "a local engine that keeps ten prompts; the cost is what it has to process",
		Provider: "mlx_lm", Model: "mlx-community/Qwen3-Coder-30B-A3B-Instruct-8bit", Format: wire.OpenAIChat,
	},
}

// Profiles returns the names of all profiles.
func Profiles() []string {
	names := make([]string, len(profiles))
	for i := range profiles {
		names[i] = profiles[i].Name
	}
	return names
}

// ProfileByName returns the profile of that name, or an error that lists the
// names there are.
func ProfileByName(name string) (Profile, error) {
	for _, p := range profiles {
		if p.Name == name {
			return p, nil
		}
	}
	return Profile{}, fmt.Errorf("profile must be one of %s, got %q", strings.Join(Profiles(), ", "), name)
}

// Rules returns the rules of the profile's model on the day of [Collected].
func (p Profile) Rules() Rules {
	return cmp.Or(p.Prices, BuiltIn()).Lookup(p.Provider, p.Model, Collected())
}

// Config returns the configuration of a simulator for the profile. It answers
// by the profile's rules, whichever time its calls tell and whichever model
// they name.
func (p Profile) Config() SimulatorConfig {
	rules := p.Rules()
	return SimulatorConfig{Rules: func(string, time.Time) Rules { return rules }}
}
