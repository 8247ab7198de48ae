// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package vertex is the format of Claude on Google's Vertex AI: the Messages API under other paths,
// with the model in the path and the API version in the body
// (https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude/use-claude).
package vertex

import (
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/anthropic"
)

// Format is the format's name.
const Format wire.Format = "anthropic_vertex"

// Codec is Claude on Vertex AI: POST …/publishers/anthropic/models/{model}:rawPredict
// and :streamRawPredict.
type Codec struct{ anthropic.Codec }

// Traits implements [wire.Codec].
func (c Codec) Traits() wire.Traits {
	t := c.Codec.Traits()
	// Only Anthropic's own API has threads.
	t.Variant, t.Threads, t.RequestID = true, false, ""
	return t
}

const (
	models  = "/publishers/anthropic/models/"
	whole   = "rawPredict"
	stream  = "streamRawPredict"
	counter = "count-tokens" // stands in place of the model; the body names the model
)

// Match implements [wire.Codec].
func (c Codec) Match(path string) bool {
	_, _, _, ok := c.Address(path) //nolint:dogsled // what it says matters elsewhere
	return ok
}

// Address implements [wire.Addresser].
func (Codec) Address(path string) (base, model string, streams, ok bool) {
	at := strings.LastIndexByte(path, '/') + 1
	model, method, _ := strings.Cut(path[at:], ":")
	if !strings.HasSuffix(path[:at], models) || model == "" || model == counter || method != whole && method != stream {
		return "", "", false, false
	}
	return path[:at], model, method == stream, true
}

// MatchCount implements [wire.TokenCounter]
// (https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude/count-tokens).
func (Codec) MatchCount(path string) bool { return strings.HasSuffix(path, models+counter+":"+whole) }

// Place implements [wire.Placer].
func (Codec) Place(base string) (level wire.Service, google bool) { return Level(base), false }

// Level returns the service level of an address at Vertex AI. A location other than global has prices of
// its own.
func Level(base string) wire.Service {
	if _, location, ok := strings.Cut(base, "/locations/"); ok && !strings.HasPrefix(location, "global/") {
		return wire.Regional
	}
	return 0
}
