// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openaichat

import (
	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/openai"
)

// readUsage takes in a usage object, which replaces one that came before. The
// format counts inclusively: prompt_tokens holds what was read from the cache
// and what was written to it. The cached part has a name per vendor:
// prompt_tokens_details.cached_tokens (OpenAI, mlx_lm.server, llama-server),
// cached_tokens (oMLX), prompt_cache_hit_tokens (DeepSeek),
// cache_read_input_tokens (gateways in front of Anthropic).
func readUsage(known wire.Usage, u gjson.Result) wire.Usage {
	if !u.IsObject() {
		return known
	}
	var c counts
	u.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "prompt_tokens":
			c.prompt = wire.Count(value)
		case "completion_tokens":
			c.output = wire.Count(value)
		case "total_tokens":
			c.total = wire.Count(value)
		case "cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens":
			c.read = max(c.read, wire.Count(value))
		case "cache_creation_input_tokens":
			c.write = max(c.write, wire.Count(value))
		case "prompt_tokens_details":
			c.details(value)
		}
		return true
	})
	if c.prompt+c.output == 0 {
		return known
	}
	read := min(c.read, c.prompt)
	write := min(c.write, c.prompt-read)
	hour := min(c.hour, write)
	return wire.Usage{
		Uncached: c.prompt - read - write,
		Write5m:  write - hour,
		Write1h:  hour,
		Read:     read,
		// Some vendors leave reasoning out of completion_tokens, none leaves
		// it out of the total.
		Output:   max(c.output, c.total-c.prompt),
		Reported: true,
	}
}

// counts are the members of a usage object, by what they mean.
type counts struct{ prompt, output, total, read, write, hour int64 }

// details reads what there is to say of the prompt.
func (c *counts) details(details gjson.Result) {
	details.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "cached_tokens":
			c.read = max(c.read, wire.Count(value))
		case "cache_write_tokens", "cache_creation_tokens":
			c.write = max(c.write, wire.Count(value))
		case "cache_write_tokens_details", "cache_write_1h_tokens":
			c.hour = openai.LongWrites(details)
		}
		return true
	})
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
