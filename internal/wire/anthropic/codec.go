// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package anthropic is the format of the Messages API.
package anthropic

import (
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/intercept"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Codec is the Messages API: POST …/v1/messages.
type Codec struct{}

// Traits implements [wire.Codec].
func (Codec) Traits() wire.Traits {
	return wire.Traits{
		Markers: true, BindsThinking: true, Safeguards: true, Attribution: true, Threads: true, MessageList: true,
		Alternates: true, UsageFirst: true, ResultsFollow: true,
		Heartbeat: "event: ping\ndata: {\"type\":\"ping\"}\n\n", KeyHeader: "X-Api-Key", RequestID: "Request-Id",
	}
}

// Match implements [wire.Codec].
func (Codec) Match(path string) bool { return strings.HasSuffix(path, "/v1/messages") }

// ForcesCall implements [wire.Codec].
func (Codec) ForcesCall(choice gjson.Result) bool { return wire.ForcesCall(choice) }

// MatchCount implements [wire.TokenCounter].
func (Codec) MatchCount(path string) bool {
	return strings.HasSuffix(path, "/v1/messages/count_tokens")
}

// CountedRequest implements [wire.TokenCounter].
func (Codec) CountedRequest(body []byte) ([]byte, string) { return body, "" }

// CountAnswer implements [wire.TokenCounter].
func (Codec) CountAnswer(tokens int) []byte {
	return append(strconv.AppendInt([]byte(`{"input_tokens":`), int64(tokens), 10), '}')
}

// Prefill implements [wire.Prefiller].
func (Codec) Prefill() []wire.Member {
	return []wire.Member{{Name: "max_tokens", Value: []byte("1")}, {Name: "thinking"}}
}

// Base implements [wire.Prefiller].
func (c Codec) Base([]byte) []wire.Member {
	return append(c.Prefill(),
		wire.Member{Name: "messages", Value: []byte("[" + wire.PrefillMessage + "]")},
		wire.Member{Name: "output_config"},
	)
}

// Name implements [wire.Codec].
func (Codec) Name(key []byte) []byte { return key }

// Member implements [wire.Codec]. A thread is created, or continues from a stored answer.
func (Codec) Member(p *wire.Parser, key []byte, value rawjson.Span) {
	if string(key) == "tags" {
		p.View.Tags = value
		return
	}
	c := &p.View.Conversation
	if string(key) != "thread" || !p.View.Traits().Threads || wire.IsNull(p.Body, value) {
		return
	}
	if !c.Thread.Empty() {
		p.Fail(wire.ErrDuplicate)
		return
	}
	c.Thread = value
	thread := gjson.ParseBytes(value.Of(p.Body))
	// An unknown type counts as a continuation, because part of the prompt may be stored at the
	// provider.
	if thread.Get("type").Str != "create" {
		c.Partial, c.Continues = true, thread.Get("previous_message_id").Str
	}
}

// Messages implements [wire.Codec].
func (Codec) Messages(p *wire.Parser, at int) int { return p.Messages(at, parser{p}) }

// Tool implements [wire.Codec].
func (Codec) Tool(p *wire.Parser, at int) int { return p.Tool(at, &tools) }

// System implements [wire.Codec].
func (Codec) System(p *wire.Parser, value rawjson.Span) {
	parser{p}.content(value, wire.SectionSystem, wire.RoleSystem)
}

// Reader implements [wire.Codec].
func (Codec) Reader(to wire.Sink) wire.AnswerReader {
	return &answerReader{Teller: wire.Teller{Sink: to, Index: -1}}
}

// Silent implements [wire.Codec].
func (Codec) Silent(name []byte) bool {
	return string(name) == "content_block_stop" || string(name) == "ping"
}

// Intercepts implements [intercept.Codec].
func (Codec) Intercepts(*wire.View) bool { return true }

// Intercept implements [intercept.Codec].
func (Codec) Intercept(r *intercept.Message) intercept.Interception {
	i := &interception{}
	i.Numbered = intercept.Numbered{Message: r, Type: "type", Index: "index", End: i.end}
	return i
}

// Mark implements [wire.Marker].
func (Codec) Mark(v *wire.View, b *wire.Block, value []byte) ([]wire.Cut, error) {
	return v.MarkBlock(b, value)
}

// Markable implements [wire.Marker].
func (Codec) Markable(b *wire.Block) bool { return wire.Markable(b) }
