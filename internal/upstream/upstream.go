// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// Upstream describes the upstream: its kind, its format, and differences of its prompt cache from
// the built-in table.
type Upstream struct {
	// Preset names the kind of upstream: anthropic, openai, azure, gemini, vertex and bedrock
	// (Claude there), deepseek, fireworks, groq, minimax, mistral, moonshot, openrouter, qwen,
	// together, xai, zai, mlx_lm, lm_studio, omlx, vllm_mlx, rapid_mlx, mlx_openai_server, swift_lm,
	// ollama, llama_cpp, vllm, sglang or letta. The preset gives the defaults of all other options.
	// Default: the cache rules of the provider whose host the requests reach, or else of the vendor
	// that the name of each model tells; an unknown model at an unknown host counts as one on a
	// local server with a free cached prefix.
	Preset string `json:"preset,omitempty"`
	// Format is the upstream's format: anthropic, openai_chat, openai_responses, gemini or
	// interactions. Requests in another format are translated. Default: the preset's format;
	// without a preset, the client's.
	Format wire.Format `json:"format,omitempty"`
	// Models maps the clients' model names to the upstream's. The first matching entry wins.
	// Default: every model keeps its name; under mlx_lm, hosted models become default_model,
	// because the server would download them.
	Models []ModelName `json:"models,omitempty"`
	// MaxTokensDefault bounds the answers to requests without a bound. It applies to requests
	// translated to the format anthropic, which requires a bound, and to requests to a local server
	// in openai_chat. Default: 8192 for anthropic, 32768 for mlx_lm (the server's own bound is
	// 512), none for the others.
	MaxTokensDefault *int `json:"max_tokens_default,omitempty"`
	// Drop names top-level members to remove from requests. Default: the members that the preset's
	// server mishandles; empty: none. Drop, Body and Reasoning do not apply to anthropic, openai,
	// azure and gemini, nor to the Responses API of a hosted provider.
	Drop []string `json:"drop,omitzero"`
	// Body holds members to set in each request, replacing the client's: chat_template_kwargs, ttl,
	// return_progress. A string of exactly one placeholder stands for the placeholder's value:
	// JSON, or else a string; without a value the member is omitted. "{http.vars.llm_slot}" is the
	// slot of the queue, "{http.llm_cache.session}" the ID of the session.
	// "{http.vars.llm_cache_salt}" is a secret common to all tenants that share prefixes (the
	// overlay's group, or else the credential). null removes a member of the preset. Default: the
	// preset's.
	Body map[string]json.RawMessage `json:"body,omitempty"`
	// Reasoning is the upstream's name for the thinking of earlier turns in openai_chat:
	// reasoning_content, reasoning, or none to remove the thinking. Clients of openai_chat always
	// get reasoning_content. Default: the preset's.
	Reasoning string `json:"reasoning,omitempty"`
	// CacheControl reports whether cache_control stays in requests to openai_chat and to local
	// servers. Default: true for minimax, openrouter and qwen; else false in requests translated to
	// openai_chat; in others true for anthropic, vertex, bedrock, omlx and letta, and without a
	// preset.
	CacheControl *bool `json:"cache_control,omitempty"`
	// Breakpoints turns cache_control into prompt_cache_breakpoint in requests translated to
	// OpenAI's formats, for models that support it (gpt-5.6 and later). Default: false.
	Breakpoints *bool `json:"breakpoints,omitempty"`
	// MaxToolName is the maximum length of a tool's name at the upstream, in bytes, 16 to 256.
	// Translation shortens longer names. Default: 128 for anthropic, 64 for the other formats.
	MaxToolName *int `json:"max_tool_name,omitempty"`
	// SystemMessages places system messages in the middle of translated requests: in_place keeps them
	// there, folded moves them into the text or tool result before them. Default: in_place if the
	// upstream is known to accept them.
	SystemMessages translate.SystemMessages `json:"system_messages,omitempty"`
	// ReportsCache reports whether the upstream reports how many tokens of a prompt were cached. If
	// it does not, they are estimated. Default: false for lm_studio, vllm_mlx, swift_lm, ollama,
	// vllm and sglang, else true. Reported cached tokens always count.
	ReportsCache *bool `json:"reports_cache,omitempty"`
	// CacheTTL is how long an unused cache entry lives. Default: the built-in table's value.
	CacheTTL caddy.Duration `json:"cache_ttl,omitempty"`
	// CacheWrite is the price of writing a token to the cache, as a multiple of an uncached input
	// token. Default: the built-in table's value.
	CacheWrite *float64 `json:"cache_write,omitempty"`
	// CacheRead is the price of reading a token from the cache, as a multiple of an uncached input
	// token. Default: the built-in table's value.
	CacheRead *float64 `json:"cache_read,omitempty"`
	// CacheMinTokens is the shortest prefix that is cached, in tokens. Default: the built-in
	// table's value.
	CacheMinTokens *int `json:"cache_min_tokens,omitempty"`
	// ContextWindow is the longest prompt that the model takes, in tokens. Default: the built-in
	// table's value.
	ContextWindow *int `json:"context_window,omitempty"`
	// Key is the upstream's API key, as a placeholder such as `{env.ANTHROPIC_API_KEY}` or
	// `{file./run/secrets/key}`. Each request gets it in the header that the API reads, in place
	// of the client's credentials, which tell users and tenants apart here. Default: none, clients
	// send the upstream's key.
	Key string `json:"key,omitempty"`
	// SignerRaw signs edited requests, a guest module `llm_cache.signers.*`: aws for Amazon
	// Bedrock, where clients sign each body. Without a working signer, signed requests are
	// forwarded unmodified; requests with a bearer token need no signature. Default: none.
	SignerRaw json.RawMessage `json:"signer,omitempty" caddy:"namespace=llm_cache.signers inline_key=provider"`

	// Agents selects Letta's REST API (Letta Cloud and old servers), where each conversation gets
	// an agent of its own. Only for letta. Default: Letta's App Server.
	Agents *Agents `json:"agents,omitempty"`

	signer Signer
}

func meant(written string) string {
	var near []string
	for _, name := range presetNames {
		if written != "" && strings.HasPrefix(name, written) {
			near = append(near, name)
		}
	}
	if len(near) == 0 {
		near = append(near, option.Nearest(written, presetNames))
	}
	if near[0] == "" {
		return ""
	}
	return "; did you mean " + strings.Join(near, " or ") + "?"
}

// Validate returns an error for the first invalid option. A nil Upstream is valid.
func (u *Upstream) Validate() error {
	if u == nil {
		return nil
	}
	if u.Preset != "" && !slices.Contains(presetNames, u.Preset) {
		return fmt.Errorf("preset must be one of %s, got %q%s", strings.Join(presetNames, ", "), u.Preset, meant(u.Preset))
	}
	if u.Format != "" && !slices.Contains(translate.Formats(), u.Format) {
		names := make([]string, len(translate.Formats()))
		for i, f := range translate.Formats() {
			names[i] = string(f)
		}
		return fmt.Errorf("format must be one of %s, got %q", strings.Join(names, ", "), u.Format)
	}
	if u.Key != "" && u.SignerRaw != nil {
		return errTwoKeys
	}
	for _, m := range u.Models {
		if m.From == "" || m.To == "" {
			return fmt.Errorf("models: %q to %q: a name is empty", m.From, m.To)
		}
		if n := strings.Count(m.To, "*"); n > 1 || n == 1 && strings.Count(m.From, "*") != 1 {
			return fmt.Errorf("models: %q to %q: a * in the upstream's name needs exactly one * in both names", m.From, m.To)
		}
	}
	if err := u.validateCompat(); err != nil {
		return err
	}
	if err := u.Agents.validate(u); err != nil {
		return err
	}
	if ttl := time.Duration(u.CacheTTL); ttl != 0 && (ttl < time.Second || ttl > 30*24*time.Hour) {
		return fmt.Errorf("cache_ttl must be between 1s and 30d, got %s", ttl)
	}
	for _, f := range []struct {
		name  string
		value *float64
		max   float64
	}{{"cache_write", u.CacheWrite, 10}, {"cache_read", u.CacheRead, 1}} {
		// The negation also rejects NaN.
		if f.value != nil && !(*f.value >= 0 && *f.value <= f.max) {
			return fmt.Errorf("%s must be between 0 and %v, got %v", f.name, f.max, *f.value)
		}
	}
	for _, n := range []struct {
		name     string
		value    *int
		min, max int
	}{
		{"cache_min_tokens", u.CacheMinTokens, 0, 1 << 20},
		{"context_window", u.ContextWindow, 256, 1 << 30},
		{"max_tokens_default", u.MaxTokensDefault, 1, 1 << 30},
		{"max_tool_name", u.MaxToolName, 16, 256},
	} {
		if n.value != nil && (*n.value < n.min || *n.value > n.max) {
			return fmt.Errorf("%s must be between %d and %d, got %d", n.name, n.min, n.max, *n.value)
		}
	}
	return nil
}

var redacted = json.RawMessage(`"REDACTED"`)

// Redacted returns a copy of the upstream in which potential secrets are unreadable: the values of
// Body.
func (u *Upstream) Redacted() *Upstream {
	if u == nil || len(u.Body) == 0 {
		return u
	}
	o := *u
	o.Body = make(map[string]json.RawMessage, len(u.Body))
	for name := range u.Body {
		// Values may be keys or tokens, names are not.
		o.Body[name] = redacted
	}
	return &o
}

// Rules returns the cache rules of the upstream as a function of the model.
func (p *Profile) Rules() func(model string, at time.Time) pricing.Rules {
	return remembered(p.provider, p.lookup(cmp.Or(p.Prices, pricing.BuiltIn())))
}

// rulesOf has the rules of a provider's model in one hour: prices change on the hour, in UTC.
type rulesOf struct {
	provider, model string
	hour            int64
	rules           pricing.Rules
}

const maxModel = 128

func remembered(
	provider func() string, lookup func(provider, model string, at time.Time) pricing.Rules,
) func(model string, at time.Time) pricing.Rules {
	const hour = 60 * 60
	// One entry is enough: consecutive requests mostly have the same model.
	var last atomic.Pointer[rulesOf]
	return func(model string, at time.Time) pricing.Rules {
		now, provider := at.Unix()/hour, provider()
		if l := last.Load(); l != nil && l.model == model && l.hour == now && l.provider == provider {
			return l.rules.Corrected()
		}
		r := &rulesOf{provider, model, now, lookup(provider, model, at)}
		// Do not keep a client's long string in memory.
		if len(model) <= maxModel {
			last.Store(r)
		}
		return r.rules.Corrected()
	}
}

func (u *Upstream) lookup(table *pricing.Table) func(provider, model string, at time.Time) pricing.Rules {
	if u == nil {
		return table.Lookup
	}
	over := pricing.Override{
		Write:         u.CacheWrite,
		Read:          u.CacheRead,
		MinTokens:     u.CacheMinTokens,
		ContextWindow: u.ContextWindow,
	}
	if u.CacheTTL != 0 {
		ttl := time.Duration(u.CacheTTL)
		over.TTL = &ttl
	}
	return func(provider, model string, at time.Time) pricing.Rules {
		return table.Lookup(provider, u.Model(model), at).With(over)
	}
}
