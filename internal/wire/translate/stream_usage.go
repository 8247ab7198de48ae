// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Count takes a member that holds the answer's usage.
func (f *Flow) Count(u gjson.Result) {
	if !u.IsObject() {
		return
	}
	f.Answer.Usage = wire.ReadUsage(f.from, f.Answer.Usage, u.Raw)
	for _, name := range [...]string{"service_tier", "serviceTier", "trafficType"} {
		f.Served(wire.ServiceTier(u.Get(name).Str))
	}
	f.Served(wire.ServiceSpeed(u.Get("speed").Str) | wire.ServiceGeo(u.Get("inference_geo").Str))
	f.counted = f.counted || u.Get("prompt_tokens").Int()+u.Get("completion_tokens").Int() > 0
	for _, path := range [...]string{"completion_tokens_details.reasoning_tokens", "output_tokens_details.reasoning_tokens", "thoughtsTokenCount", "total_thought_tokens"} {
		if n := u.Get(path).Int(); n > 0 && n <= f.Answer.Usage.Output {
			f.Answer.Reasoning = n
		}
	}
}

// Served takes what the upstream says of how it serves the request.
func (f *Flow) Served(s wire.Service) { f.service = s.Or(f.service) }

// CountTimings takes what a llama.cpp server says in the place of a usage.
func (f *Flow) CountTimings(t gjson.Result) {
	if t.IsObject() && !f.counted {
		f.Answer.Usage = wire.ReadTimings(t.Raw)
	}
}

// PromptProgress takes what a llama.cpp server says of the prompt while it reads it: all
// of its tokens, and those that were in the cache.
func (f *Flow) PromptProgress(p gjson.Result) {
	total, cached := p.Get("total").Int(), p.Get("cache").Int()
	if !p.IsObject() || f.Answer.Started || f.counted || total <= 0 || total > longestPrompt || cached < 0 || cached > total {
		return
	}
	f.Answer.Usage = wire.Usage{Uncached: total - cached, Read: cached, Reported: true}
}

// longestPrompt is more tokens than any prompt has.
const longestPrompt = 1 << 40
