// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"fmt"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Regime is how a provider decides what is cached.
type Regime uint8

// The regimes.
const (
	// KV is prefix reuse in the memory of a local engine: nothing has a price
	// but the time to process what is not reused.
	KV Regime = iota
	// Markers is Anthropic's: entries are written where the client sets
	// cache_control, and found again by a bounded look-back.
	Markers
	// Automatic is that of OpenAI up to GPT-5.5 and of Gemini: the longest known
	// prefix is found, writing is free.
	Automatic
	// Breakpoints is that of OpenAI from GPT-5.6 on: writing has a price and
	// happens at breakpoints, one of which the provider sets by itself.
	Breakpoints
)

var regimeNames = [...]string{"kv", "markers", "automatic", "breakpoints"}

// String returns the regime's name: kv, markers, automatic or breakpoints.
func (r Regime) String() string { return regimeNames[r] }

// MarshalText returns the regime's name.
func (r Regime) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a regime's name.
func (r *Regime) UnmarshalText(text []byte) error {
	for i, name := range regimeNames {
		if name == string(text) {
			*r = Regime(i)
			return nil
		}
	}
	return fmt.Errorf("cache regime %q is none of kv, markers, automatic, breakpoints", text)
}

// Rules are what one model's prompt cache does and costs at one time. The zero
// value is an engine of which nothing is known and that caches nothing.
type Rules struct {
	// Provider is the provider whose rules these are, such as "anthropic".
	Provider string `json:"provider"`
	// Model is the model as the table names it, or as it was asked for where
	// the table does not know it.
	Model string `json:"model"`
	// Regime is how the provider decides what is cached.
	Regime Regime `json:"regime"`

	// Input and Output are prices in US dollars for a million tokens, 0 where
	// they are not known or where there are none.
	Input float64 `json:"input"`
	// Output: see Input.
	Output float64 `json:"output"`
	// Write, Write1h and Read are the prices of a token written to the cache
	// (for the short and the long lifetime, which is 12 hours at OpenAI) or read from it, as multiples of the
	// price of an uncached input token.
	Write float64 `json:"write"`
	// Write1h: see Write.
	Write1h float64 `json:"write_1h"`
	// Read: see Write.
	Read float64 `json:"read"`
	// TierAbove is the number of prompt tokens above which the whole request,
	// its answer included, is billed at TierInput times Input and TierOutput
	// times Output. 0 means that there is no such tier.
	TierAbove int `json:"tier_above,omitempty"`
	// TierInput and TierOutput: see TierAbove.
	TierInput float64 `json:"tier_input,omitempty"`
	// TierOutput: see TierAbove.
	TierOutput float64 `json:"tier_output,omitempty"`

	// TTL is how long an entry lives without use, counted from the start of the
	// request that wrote or read it. 0 means until other prompts displace it.
	TTL time.Duration `json:"ttl"`
	// LongTTL is the lifetime that clients may ask for instead, 0 if none.
	LongTTL time.Duration `json:"long_ttl,omitempty"`
	// MinTokens is the shortest prefix that is cached.
	MinTokens int `json:"min_tokens"`
	// Markers is the number of breakpoints that a request may set, 0 if it may
	// set none.
	Markers int `json:"markers"`
	// LookBack is the number of positions that are searched for an entry from
	// each breakpoint back, itself included. 0 means all.
	LookBack int `json:"look_back,omitempty"`
	// CollapseRuns reports that a run of tool calls, and a run of tool results,
	// counts as one position of the look-back.
	CollapseRuns bool `json:"collapse_runs,omitempty"`
	// Units reports that an automatic cache finds whole requests, and the common prefix of two
	// requests from the third on, but no other prefix (DeepSeek, "Context Caching").
	Units bool `json:"units,omitempty"`
	// Slots is the number of prompts that an engine keeps in the KV regime.
	Slots int `json:"slots,omitempty"`

	// BindsThinking reports that a thinking block is refused when anything before
	// it differs from what the model saw when it wrote it. Accounts opened before
	// 2026-08-31 are spared by some of these models; whose account it is cannot
	// be told from outside, so they are not counted as spared.
	BindsThinking bool `json:"binds_thinking,omitempty"`
	// BindsReasoning reports that a reasoning item of the Responses API is left out
	// of the prompt, without an error, when anything before it differs from what
	// the model saw when it wrote it [D].
	BindsReasoning bool `json:"binds_reasoning,omitempty"`
	// Explicit reports that a request may carry breakpoints of the client's own,
	// prompt_cache_breakpoint, in content parts. Hosts that do not know the
	// member refuse the request, so it holds only where the provider is known
	// by configuration, not by the model's name [D].
	Explicit bool `json:"explicit,omitempty"`
	// KeepsThinking reports that the thinking of finished turns stays in the
	// prompt. Where it is false the provider itself leaves it out as soon as a
	// person's prompt follows.
	KeepsThinking bool `json:"keeps_thinking,omitempty"`
	// RefusesPrefill reports that the messages may not end with the assistant's.
	RefusesPrefill bool `json:"refuses_prefill,omitempty"`
	// RefusesForcedTools reports that tool_choice may not demand a tool.
	RefusesForcedTools bool `json:"refuses_forced_tools,omitempty"`
	// SignsCalls reports that the calls of the current turn must come back with the
	// signatures that the model gave them (Gemini from version 3 on).
	SignsCalls bool `json:"signs_calls,omitempty"`
	// ContextWindow is the longest prompt in tokens, 0 where it is not known.
	ContextWindow int `json:"context_window,omitempty"`
	// AssumedFrom names the model whose rules stand in for those of a model that the
	// table does not have, "" where the rules are the model's own.
	AssumedFrom string `json:"assumed_from,omitempty"`
	// PricesOf names the model whose prices stand in for unknown ones, "" where the
	// prices are the model's own or there are none.
	PricesOf string `json:"prices_of,omitempty"`

	row      *model    // the rules are its, or assumed from it; nil for a local engine
	observed *Observed // corrects assumed rules; nil for others
}

// At returns the rules for a prompt of that many tokens: those of the upper
// price tier where the prompt is long enough for it. The multiples are the same
// in both tiers.
func (r Rules) At(promptTokens int) Rules {
	if r.TierAbove == 0 || promptTokens <= r.TierAbove {
		return r
	}
	r.Input *= r.TierInput
	r.Output *= r.TierOutput
	r.TierAbove, r.TierInput, r.TierOutput = 0, 0, 0
	return r
}

// Cost returns what the prompt side of a usage costs, in units of one uncached
// input token of the lower price tier.
func (r Rules) Cost(u wire.Usage) float64 {
	cost := float64(u.Uncached) + float64(u.Write5m)*r.Write + float64(u.Write1h)*r.Write1h + float64(u.Read)*r.Read
	if r.TierAbove > 0 && u.Prompt() > int64(r.TierAbove) {
		cost *= r.TierInput
	}
	return cost
}

// CostOutput returns what the answer of a usage costs in the unit of Cost. It is
// 0 where the prices are not known.
func (r Rules) CostOutput(u wire.Usage) float64 {
	if r.Input == 0 {
		return 0
	}
	return float64(u.Output) * r.At(int(u.Prompt())).Output / r.Input
}

// Dollars returns what a usage costs in US dollars, prompt and answer. It is 0
// where the prices are not known.
func (r Rules) Dollars(u wire.Usage) float64 {
	return (r.Cost(u) + r.CostOutput(u)) * r.Input / 1e6
}

// Lifetime returns how long an entry lives that was written with the long or
// the short lifetime. 0 means until it is displaced.
func (r Rules) Lifetime(long bool) time.Duration {
	if long && r.LongTTL > 0 {
		return r.LongTTL
	}
	return r.TTL
}

// Asked returns the rules as a request has them that asks for a lifetime of its own (OpenAI),
// or asks for a model elsewhere than the upstream's name tells (Gemini at Vertex).
func (r Rules) Asked(v *wire.View) Rules {
	c := new(cacheRow)
	if r.row != nil {
		c = r.row.cache
	}
	switch {
	case v.Vertex && c.VertexMinTokens > 0:
		r.MinTokens = max(r.MinTokens, c.VertexMinTokens)
	case v.Caching.Retention == "" || r.LongTTL == 0:
	case r.Regime == Automatic && v.Caching.Retention == "24h", r.Regime == Breakpoints && v.Caching.Retention == "12h":
		r.TTL, r.Write = r.LongTTL, r.Write1h
	case c.MemoryTTL > 0 && (v.Caching.Retention == "in_memory" || v.Caching.Retention == "in-memory"):
		r.TTL = time.Duration(c.MemoryTTL)
	}
	return r
}
