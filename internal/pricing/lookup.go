// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"strings"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Lifetimes of the hosted caches.
const (
	// shortTTL and longTTL are Anthropic's two lifetimes [D].
	shortTTL = 5 * time.Minute
	longTTL  = time.Hour
	// memoryTTL is how long OpenAI's older models and Gemini keep a prefix that is
	// not used: documented as five to ten minutes, counted here as five.
	memoryTTL = 5 * time.Minute
	dayTTL    = 24 * time.Hour
	// breakpointTTL is the least that OpenAI's newer models promise [D], halfDayTTL the
	// lifetime that requests may ask for instead since 2026-11-03 [D].
	breakpointTTL = 30 * time.Minute
	halfDayTTL    = 12 * time.Hour
)

// dayByDefault is the day from which OpenAI keeps prefixes of GPT-4.1 to GPT-5.5 for 24
// hours unless a request says in_memory [D]. Organisations without data retention are
// spared, which cannot be told from outside: they say so by a shorter lifetime.
var dayByDefault = time.Date(2026, time.May, 29, 0, 0, 0, 0, time.UTC)

// vertexMin is the shortest prefix of the newer Gemini models that Vertex caches [S].
const vertexMin = 6144

// slots is how many prompts the engines behind a local provider keep, as far as
// their sources tell. What is not here keeps one.
var slots = map[string]int{
	"mlx_lm":            10, // --prompt-cache-size
	"lm_studio":         10, // the same cache, below a server of its own
	"mlx_openai_server": 10,
	"omlx":              64, // paged, on disk too
	"rapid_mlx":         10,
	"vllm_mlx":          4, // snapshots of the system prompt
	"llama_cpp":         4, // and a cache of displaced slots in main memory
	"ollama":            1, // OLLAMA_NUM_PARALLEL
	// Both are paged, and their start tells how many prompts fit: 15 of 40,960 tokens in the
	// example of vLLM's documentation (parallelism_scaling.md).
	"vllm":     15,
	"sglang":   15,
	"swift_lm": 1,
	"letta":    1,
}

// Lookup returns the rules of a model at a provider at a time by the built-in table.
func Lookup(provider, model string, at time.Time) Rules {
	return builtIn().Lookup(provider, model, at)
}

// Lookup returns the rules of a model at a provider at a time.
//
// The provider is the name of a preset: anthropic, bedrock, vertex, openai,
// gemini, or a local engine (mlx_lm, lm_studio, ollama, llama_cpp …), whose rules
// do not depend on the model. Empty, it is inferred from the model's name.
// Names with a vendor before them, with a date, a Bedrock revision or [1m] behind
// them are understood. A time before the first known price takes that price.
//
// Models that the table does not know get the rules of their kind and the prices of the
// dearest model of their vendor: those of a Claude of that version on the cautious side,
// those of an OpenAI or Gemini model of that version; anything else the rules of a local
// engine with one slot and no prices, or, where a table has a row of the provider "other"
// for it, those of a host that finds prefixes by itself.
func (t *Table) Lookup(provider, model string, at time.Time) Rules {
	n, named := nameOf(model), provider != ""
	if !named {
		provider = n.vendor
	}
	if provider == "vertex" && strings.HasPrefix(n.model, "gemini-") {
		return t.gemini(provider, n, at)
	}
	switch provider {
	case "anthropic", "bedrock", "vertex":
		return t.anthropic(provider, n, at)
	case "openai", "azure":
		r := t.openAI(provider, n, at)
		r.Explicit = named && provider == "openai" && r.Regime == Breakpoints
		return r
	case "gemini":
		return t.gemini(provider, n, at)
	case "", "other":
		if row, ok := t.find("other", n.model, at); ok {
			r := row.rules
			r.Regime, r.TTL = Automatic, memoryTTL
			if row.day {
				r.TTL = dayTTL
			}
			return r
		}
	}
	r := Rules{Provider: provider, Model: n.model, Write: 1, Write1h: 1, Slots: 1, KeepsThinking: true, Mark: "[I]"}
	if s := slots[provider]; s > 0 {
		r.Slots = s
	}
	if t.all && (provider == "" || provider == "other") {
		t.assume(&r, "", at)
	}
	return r
}

func (t *Table) anthropic(provider string, n name, at time.Time) Rules {
	row, ok := t.find(provider, n.model, at)
	if !ok {
		row, ok = t.find("anthropic", n.model, at)
	}
	r := row.rules
	if !ok {
		r = unknownClaude(n)
		t.assume(&r, "anthropic", at)
	}
	r.Provider, r.Regime = provider, Markers
	r.TTL, r.LongTTL = shortTTL, longTTL
	r.Markers, r.LookBack = 4, 20
	r.CollapseRuns = provider == "anthropic" // elsewhere each block is a position [D]
	if n.long {
		r.ContextWindow = 1000000
	}
	if n.region {
		r = r.Served(wire.Regional)
	}
	return r
}

// unknownClaude returns cautious rules: the highest price of reading, the
// largest minimum, and the checks that models of that version are known to make.
func unknownClaude(n name) Rules {
	r := Rules{Model: n.model, Write: 1.25, Write1h: 2, Read: 0.1, MinTokens: 4096, Mark: "[I]"}
	if n.major < 0 { // an alias: it may be any model
		r.BindsThinking, r.KeepsThinking, r.RefusesPrefill = true, true, true
		return r
	}
	r.BindsThinking = !n.below(5, 1)
	r.RefusesPrefill = !n.below(4, 6)
	r.KeepsThinking = !n.below(4, 6) || n.family == "opus" && !n.below(4, 5)
	return r
}

func (t *Table) openAI(provider string, n name, at time.Time) Rules {
	row, ok := t.find(provider, n.model, at)
	if !ok {
		row, ok = t.find("openai", n.model, at)
	}
	r := row.rules
	newer := n.major >= 0 && !n.below(5, 6)
	if !ok {
		r = Rules{Model: n.model, Read: 0.5, Write: 1, Write1h: 1, MinTokens: 1024, KeepsThinking: true, Mark: "[D] read by version"}
		switch {
		case newer:
			r.Read, r.Write, r.Write1h = 0.1, 1.25, 1.25
		case n.major == 5:
			r.Read = 0.1
		case n.major == 4 && n.minor == 1, strings.HasPrefix(n.model, "o3"):
			r.Read = 0.25
		}
		t.assume(&r, "openai", at)
	}
	r.Provider = provider
	if newer {
		r.Regime, r.TTL, r.LongTTL, r.Markers = Breakpoints, breakpointTTL, halfDayTTL, 4
		r.BindsReasoning = true
		return r
	}
	r.Regime, r.TTL, r.LongTTL = Automatic, memoryTTL, dayTTL
	retained := provider == "openai" && n.major >= 0 && !n.below(4, 1) && !at.Before(dayByDefault)
	if row.day || retained {
		r.TTL = dayTTL
	}
	return r
}

func (t *Table) gemini(provider string, n name, at time.Time) Rules {
	row, own := t.find(provider, n.model, at)
	ok := own
	if !ok {
		row, ok = t.find("gemini", n.model, at)
	}
	r := row.rules
	if !ok {
		r = Rules{Model: n.model, Read: 0.1, Write: 1, Write1h: 1, MinTokens: 4096, KeepsThinking: true, Mark: "[D] minimum by version"}
		if n.major >= 0 && n.below(3, 0) {
			r.MinTokens = 2048
		}
		t.assume(&r, "gemini", at)
	}
	if !own && provider == "vertex" && !n.below(3, 0) {
		r.MinTokens = vertexMin
	}
	r.Provider, r.Regime, r.TTL = provider, Automatic, memoryTTL
	r.SignsCalls = n.major < 0 || !n.below(3, 0)
	return r
}
