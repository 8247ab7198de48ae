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

// Upstream states what stands behind the handler: who, which format it
// speaks, and where its prompt cache differs from the built-in table.
type Upstream struct {
	// Preset names the kind of upstream: anthropic, openai, gemini, vertex and
	// bedrock (Claude there), mlx_lm,
	// lm_studio, omlx, vllm_mlx, rapid_mlx, mlx_openai_server, swift_lm, ollama,
	// llama_cpp, vllm, sglang or letta. It is where the defaults of all other options come
	// from. Default: inferred from the model of each request; a model that no
	// table knows counts as one on a box whose cached prefix is free.
	Preset string `json:"preset,omitempty"`
	// Format is what the upstream speaks: anthropic, openai_chat,
	// openai_responses, gemini or interactions. Requests in another format are translated.
	// Default: what the preset speaks; without a preset, whatever comes.
	Format wire.Format `json:"format,omitempty"`
	// Models maps the models that clients ask for to those that the upstream
	// has, by the first entry that fits. Default: every model goes by its name;
	// under mlx_lm, which would download them, those of hosted models become
	// default_model.
	Models []ModelName `json:"models,omitempty"`
	// MaxTokensDefault bounds the answers to requests that give no bound: where
	// they are translated to the format anthropic, which demands one, and where
	// they go to a box in openai_chat. Default: 8192 for anthropic, 32768 for
	// mlx_lm, whose own bound is 512, none for the others.
	MaxTokensDefault *int `json:"max_tokens_default,omitempty"`
	// Drop names top-level members that are left out of requests. Default: what
	// the preset's server trips over; empty: none. Not for anthropic, openai and
	// gemini; nor are Body and Reasoning.
	Drop []string `json:"drop,omitzero"`
	// Body are members that are put into each request, in the place of what it
	// says there: chat_template_kwargs, ttl, return_progress. A string that is
	// one placeholder stands for its value, which is text if it is not JSON, and for
	// no member where there is none: "{http.vars.llm_slot}" is the slot of the queue,
	// "{http.llm_cache.session}" the ID of the session, "{http.vars.llm_cache_salt}" a secret
	// that those have in common who share prefixes (overlay's group, or else the credential).
	// null takes a member of the preset's away. Default: the preset's.
	Body map[string]json.RawMessage `json:"body,omitempty"`
	// Reasoning is the name by which the thinking of earlier turns goes to the
	// upstream in openai_chat: reasoning_content, reasoning, or none for not at
	// all. Towards clients of openai_chat it is always reasoning_content.
	// Default: the preset's.
	Reasoning string `json:"reasoning,omitempty"`
	// CacheControl reports whether cache_control is kept on the way to
	// openai_chat and to boxes. Default: false in requests translated to openai_chat; in
	// others true for anthropic, vertex, bedrock, omlx and letta, and where there is no
	// preset.
	CacheControl *bool `json:"cache_control,omitempty"`
	// Breakpoints turns cache_control into prompt_cache_breakpoint in requests
	// translated to OpenAI's formats, for models that take it (gpt-5.6 and
	// later). Default: false.
	Breakpoints *bool `json:"breakpoints,omitempty"`
	// NameLimit is the longest name of a tool that the upstream takes, in bytes,
	// 16 to 256. Longer ones are shortened in translated requests. Default: 128
	// for anthropic, 64 for the other formats.
	NameLimit *int `json:"name_limit,omitempty"`
	// SystemMessages says what becomes of system messages in the middle of
	// translated requests: in_place or folded, into the text or tool result before
	// them. Default: in_place where the upstream is known to take them.
	SystemMessages translate.SystemMessages `json:"system_messages,omitempty"`
	// ReportsCache reports whether the upstream reports how many tokens of a
	// prompt were cached. Where it does not they are estimated. Default: false for
	// lm_studio, vllm_mlx, swift_lm, ollama, vllm and sglang, else true. What an answer
	// does report counts in any case.
	ReportsCache *bool `json:"reports_cache,omitempty"`
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
	// SignerRaw is who signs requests anew, a guest module `llm_cache.signers.*`:
	// aws for Amazon Bedrock, whose clients sign each body. What a client signed goes
	// upstream as it came if nobody can; what carries a bearer token needs no
	// signature. Default: nobody.
	SignerRaw json.RawMessage `json:"signer,omitempty" caddy:"namespace=llm_cache.signers inline_key=provider"`

	// Agents has Letta's REST API spoken to, that of Letta Cloud and of old servers, where
	// each conversation gets an agent of its own. Only for letta. Default: its App Server.
	Agents *Agents `json:"agents,omitempty"`

	signer Signer
}

// meant names the presets that may have been meant by a name that is none.
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

// Validate reports the first member that makes no sense. A nil Upstream is valid.
func (u *Upstream) Validate() error {
	if u == nil {
		return nil
	}
	if u.Preset != "" && !slices.Contains(presetNames, u.Preset) {
		return fmt.Errorf("preset: %q is none of %s%s", u.Preset, strings.Join(presetNames, ", "), meant(u.Preset))
	}
	if u.Format != "" && !slices.Contains(translate.Formats(), u.Format) {
		names := make([]string, len(translate.Formats()))
		for i, f := range translate.Formats() {
			names[i] = string(f)
		}
		return fmt.Errorf("format: %q is none of %s", u.Format, strings.Join(names, ", "))
	}
	for _, m := range u.Models {
		if m.From == "" || m.To == "" {
			return fmt.Errorf("models: %q to %q: a name is empty", m.From, m.To)
		}
	}
	if err := u.validateCompat(); err != nil {
		return err
	}
	if err := u.Agents.validate(u); err != nil {
		return err
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
	}{{"cache_min_tokens", u.CacheMinTokens, 0, 1 << 20}, {"context_window", u.ContextWindow, 256, 1 << 30}, {"max_tokens_default", u.MaxTokensDefault, 1, 1 << 30}, {"name_limit", u.NameLimit, 16, 256}} {
		if n.value != nil && (*n.value < n.min || *n.value > n.max) {
			return fmt.Errorf("%s: %d is not between %d and %d", n.name, *n.value, n.min, n.max)
		}
	}
	return nil
}

// redacted stands for what may be a secret.
var redacted = json.RawMessage(`"REDACTED"`)

// Redacted returns the upstream with what may be a secret made unreadable: the values
// that are put into each request.
func (u *Upstream) Redacted() *Upstream {
	if u == nil || len(u.Body) == 0 {
		return u
	}
	o := *u
	o.Body = make(map[string]json.RawMessage, len(u.Body))
	for name := range u.Body {
		o.Body[name] = redacted
	}
	return &o
}

// Rules returns the cache rules of the upstream as a function of the model.
func (p *Profile) Rules() func(model string, at time.Time) pricing.Rules {
	return remembered(p.lookup(cmp.Or(p.Prices, pricing.BuiltIn())))
}

// rulesOf are the rules of a model on a day: prices change at midnight, in UTC.
type rulesOf struct {
	model string
	day   int64
	rules pricing.Rules
}

// longestModel bounds the names of models that are remembered.
const longestModel = 128

// remembered keeps the last rules that were looked up: nearly all requests ask
// for those of the one before.
func remembered(lookup func(model string, at time.Time) pricing.Rules) func(model string, at time.Time) pricing.Rules {
	const day = 24 * 60 * 60
	var last atomic.Pointer[rulesOf]
	return func(model string, at time.Time) pricing.Rules {
		today := at.Unix() / day
		if l := last.Load(); l != nil && l.model == model && l.day == today {
			return l.rules
		}
		r := &rulesOf{model, today, lookup(model, at)}
		if len(model) <= longestModel {
			last.Store(r)
		}
		return r.rules
	}
}

// lookup looks the cache rules of the upstream up in a table.
func (u *Upstream) lookup(table *pricing.Table) func(model string, at time.Time) pricing.Rules {
	if u == nil {
		return func(model string, at time.Time) pricing.Rules { return table.Lookup("", model, at) }
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
	return func(model string, at time.Time) pricing.Rules {
		return table.Lookup(u.Preset, u.Model(model), at).With(over)
	}
}
