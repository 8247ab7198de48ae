// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openaichat

import (
	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/openai"
)

// usage describes the members of a usage object.
var usage = wire.UsageTable{
	{Name: "prompt_tokens", Count: wire.CountPrompt},
	{Name: "completion_tokens", Count: wire.CountOutput},
	// Some vendors exclude reasoning from completion_tokens, but all include it in the total.
	{Name: "total_tokens", Count: wire.CountTotal},
	// Vendors name the cached tokens differently: prompt_tokens_details.cached_tokens (OpenAI,
	// mlx_lm.server, llama-server), cached_tokens (oMLX), prompt_cache_hit_tokens (DeepSeek),
	// cache_read_input_tokens (gateways to Anthropic).
	{Name: "prompt_tokens_details", In: openai.InputDetails},
	{Name: "completion_tokens_details", In: []wire.UsageMember{{
		Name: "reasoning_tokens", Count: wire.CountReasoning,
		Sparse: true,
	}}},
	{Name: "cached_tokens", Count: wire.CountRead, Alias: true},
	{Name: "prompt_cache_hit_tokens", Count: wire.CountRead, Alias: true},
	{Name: "cache_read_input_tokens", Count: wire.CountRead, Alias: true},
	{Name: "cache_creation_input_tokens", Count: wire.CountWrite, Alias: true},
}

// timings reads the timings of a llama.cpp server as a usage.
func timings(t gjson.Result) wire.Usage {
	return wire.Usage{
		Uncached: wire.Count(t.Get("prompt_n")),
		Read:     wire.Count(t.Get("cache_n")),
		Output:   wire.Count(t.Get("predicted_n")),
		Reported: true,
	}
}
