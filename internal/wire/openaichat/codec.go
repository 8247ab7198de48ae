// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package openaichat is the format of the chat completions API.
package openaichat

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/hidden"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/openai"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Codec is the chat completions API: POST …/v1/chat/completions.
type Codec struct{ openai.Dialect }

// Traits implements [wire.Codec].
func (Codec) Traits() wire.Traits {
	return wire.Traits{
		MessageList: true, SystemInMessages: true, EndsWithDone: true, UsageOnRequest: true,
		ServersVary: true, ArgumentsText: true, NoCalls: `"none"`,
	}
}

// Match implements [wire.Codec].
func (Codec) Match(path string) bool { return strings.HasSuffix(path, "/chat/completions") }

// ForcesCall implements [wire.Codec].
func (Codec) ForcesCall(choice gjson.Result) bool { return wire.ForcesCall(choice) }

// Prefill implements [wire.Prefiller].
func (Codec) Prefill() []wire.Member {
	return []wire.Member{{Name: "max_tokens", Value: []byte("1")}, {Name: "max_completion_tokens"}}
}

// Base implements [wire.Prefiller].
func (c Codec) Base(body []byte) []wire.Member {
	return append(c.Prefill(),
		wire.Member{Name: "messages", Value: wire.PrefillMessages(gjson.GetBytes(body, "messages"))},
		wire.Member{Name: "response_format"},
	)
}

// Name implements [wire.Codec].
func (Codec) Name(key []byte) []byte { return key }

// Member implements [wire.Codec].
func (Codec) Member(*wire.Parser, []byte, rawjson.Span) {}

// Messages implements [wire.Codec].
func (Codec) Messages(p *wire.Parser, at int) int { return p.Messages(at, parser{p}) }

// Tool implements [wire.Codec].
func (Codec) Tool(p *wire.Parser, at int) int { return parser{p}.tool(at) }

// System implements [wire.Codec].
func (Codec) System(*wire.Parser, rawjson.Span) {} // system prompts are messages

// Reader implements [wire.Codec].
func (Codec) Reader(to wire.Sink) wire.AnswerReader {
	return &answerReader{Teller: wire.Teller{Sink: to, Index: -1}}
}

// Silent implements [wire.Codec].
func (Codec) Silent([]byte) bool { return false }

// Hides implements [hidden.Codec].
func (Codec) Hides(*wire.View) bool { return true }

// Intercept implements [hidden.Codec].
func (Codec) Intercept(r *hidden.Message) hidden.Interception {
	return &interception{Message: r}
}

// Mark implements [wire.Marker].
func (Codec) Mark(v *wire.View, b *wire.Block, value []byte) ([]wire.Cut, error) { // some hosts take markers
	return v.MarkBlock(b, value)
}

// Markable implements [wire.Marker].
func (Codec) Markable(b *wire.Block) bool { return wire.Markable(b) }
