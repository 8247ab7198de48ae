// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package openairesponses is the format of the Responses API.
package openairesponses

import (
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/intercept"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/openai"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Codec is the Responses API: POST …/responses.
type Codec struct{ openai.Dialect }

// Traits implements [wire.Codec].
func (Codec) Traits() wire.Traits {
	return wire.Traits{
		Breakpoints: true, KeepsAnswers: true, FlatItems: true, TextType: "input_text",
		Heartbeat: "event: response.in_progress\ndata: {\"type\":\"response.in_progress\"," +
			"\"response\":{\"object\":\"response\",\"status\":\"in_progress\"}}\n\n",
		HeartbeatWithin: true, CompactPath: "/responses/compact", Sockets: true, NoCalls: `"none"`,
	}
}

// Match implements [wire.Codec].
func (Codec) Match(path string) bool { return strings.HasSuffix(path, "/responses") }

// ForcesCall implements [wire.Codec].
func (Codec) ForcesCall(choice gjson.Result) bool { return wire.ForcesCall(choice) }

// MatchCount implements [wire.TokenCounter].
func (Codec) MatchCount(path string) bool {
	return strings.HasSuffix(path, "/responses/input_tokens")
}

// CountedRequest implements [wire.TokenCounter].
func (Codec) CountedRequest(body []byte) ([]byte, string) { return body, "" }

// CountAnswer implements [wire.TokenCounter].
func (Codec) CountAnswer(tokens int) []byte {
	return append(strconv.AppendInt([]byte(`{"object":"response.input_tokens","input_tokens":`), int64(tokens), 10), '}')
}

// Prefill implements [wire.Prefiller].
func (Codec) Prefill() []wire.Member {
	return []wire.Member{{Name: "max_output_tokens", Value: []byte("16")}} // the API's minimum
}

// Base implements [wire.Prefiller].
func (c Codec) Base(body []byte) []wire.Member {
	return append(c.Prefill(),
		wire.Member{Name: "input", Value: wire.PrefillMessages(gjson.GetBytes(body, "input"))},
		wire.Member{Name: "previous_response_id"},
	)
}

// Name implements [wire.Codec].
func (Codec) Name(key []byte) []byte { return names[string(key)] }

// Member implements [wire.Codec].
func (Codec) Member(p *wire.Parser, key []byte, value rawjson.Span) {
	if string(key) == "background" && value.Len() == len("true") {
		p.View.Conversation.Background = string(value.Of(p.Body)) == "true"
	}
}

// Messages implements [wire.Codec].
func (Codec) Messages(p *wire.Parser, at int) int { return p.Items(at, parser{p}) }

// Tool implements [wire.Codec].
func (Codec) Tool(p *wire.Parser, at int) int { return p.Tool(at, &tools) }

// System implements [wire.Codec].
func (Codec) System(p *wire.Parser, value rawjson.Span) {
	if p.Body[value.Start] != '"' { // instructions must be a string
		p.Fail(wire.ErrShape)
		return
	}
	p.Blocks = append(p.Blocks, p.Plain(value, wire.SectionSystem, wire.RoleSystem, -1))
}

// Reader implements [wire.Codec].
func (Codec) Reader(to wire.Sink) wire.AnswerReader {
	return &answerReader{Teller: wire.Teller{Sink: to, Index: -1}}
}

// Silent implements [wire.Codec].
func (Codec) Silent([]byte) bool { return false }

// Intercepts implements [intercept.Codec].
func (Codec) Intercepts(v *wire.View) bool {
	return !v.Conversation.Partial && !v.Conversation.Background && len(v.Messages) > 0 &&
		v.Raw[v.Messages[0].Span.Start] == '{'
}

// Intercept implements [intercept.Codec].
func (Codec) Intercept(r *intercept.Message) intercept.Interception {
	i := &interception{}
	i.Numbered = intercept.Numbered{Message: r, Type: "type", Index: "output_index", End: i.end}
	r.Repeats = func() { i.sequence++ }
	return i
}

// Mark implements [wire.Marker].
func (Codec) Mark(v *wire.View, b *wire.Block, value []byte) ([]wire.Cut, error) {
	return markPart(v, b, value)
}
