// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openairesponses

import (
	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/openai"
)

// readUsage takes in a usage object. It counts inclusively: input_tokens
// holds what was read from the cache and what was written to it.
func readUsage(known wire.Usage, u gjson.Result) wire.Usage {
	if !u.IsObject() {
		return known
	}
	details := u.Get("input_tokens_details")
	prompt, output := wire.Count(u.Get("input_tokens")), wire.Count(u.Get("output_tokens"))
	if prompt+output == 0 {
		return known
	}
	read := min(wire.Count(details.Get("cached_tokens")), prompt)
	write := min(wire.Count(details.Get("cache_write_tokens")), prompt-read)
	hour := min(openai.LongWrites(details), write)
	return wire.Usage{
		Uncached: prompt - read - write,
		Write5m:  write - hour,
		Write1h:  hour,
		Read:     read,
		Output:   output,
		Reported: true,
	}
}
