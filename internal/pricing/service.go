// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// regionalPrice is what Claude costs more where it is served in one region: inference_geo
// other than global [D], regional endpoints of Bedrock and Vertex AI [D]. Models before
// 4.5 have one price everywhere.
const regionalPrice = 1.1

// Served returns the rules with the prices of a service. The multiples of the cache are
// the same in all of them.
func (r Rules) Served(s wire.Service) Rules {
	f := r.priceOf(s)
	r.Input *= f
	r.Output *= f
	return r
}

// priceOf returns a service's price as a multiple of the standard one. Multiples stack.
func (r *Rules) priceOf(s wire.Service) float64 {
	f := 1.0
	switch r.Provider {
	case "anthropic", "bedrock", "vertex":
		if strings.HasPrefix(r.Model, "gemini-") {
			return geminiPrice(s)
		}
		if s&wire.Batch != 0 {
			f *= 0.5 // [D]; Anthropic's priority tier is paid in advance
		}
		if s&wire.Fast != 0 {
			switch r.Model {
			case "claude-opus-4-6", "claude-opus-4-7":
				f *= 6 // [S]
			default:
				f *= 2 // [D] of Opus 5.5, [S] of Opus 4.8
			}
		}
		if s&wire.Regional != 0 && !nameOf(r.Model).below(4, 5) {
			f *= regionalPrice
		}
	case "openai", "azure":
		switch {
		case s&(wire.Flex|wire.Batch) != 0:
			f = 0.5 // [S]
		case s&wire.Ultrafast != 0:
			f = 6 // [S]
		case s&wire.Priority == 0:
		case r.Model == "gpt-5.5":
			f = 2.5 // [D]
		case strings.HasPrefix(r.Model, "gpt-4.1"):
			f = 1.75 // [D]
		default:
			f = 2 // [D]
		}
	case "gemini":
		return geminiPrice(s)
	}
	return f
}

func geminiPrice(s wire.Service) float64 {
	switch {
	case s&(wire.Flex|wire.Batch) != 0:
		return 0.5 // [D]
	case s&wire.Priority != 0:
		return 1.8 // [S]
	}
	return 1
}
