// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// anthropic speaks the Messages API.
type anthropic struct{}

type anthropicUsage struct {
	Input         int64              `json:"input_tokens"`
	CacheCreation int64              `json:"cache_creation_input_tokens"`
	CacheRead     int64              `json:"cache_read_input_tokens"`
	ByLifetime    *anthropicLifetime `json:"cache_creation,omitempty"`
	Output        int64              `json:"output_tokens"`
	ServiceTier   string             `json:"service_tier,omitempty"`
}

type anthropicLifetime struct {
	Write5m int64 `json:"ephemeral_5m_input_tokens"`
	Write1h int64 `json:"ephemeral_1h_input_tokens"`
}

type anthropicMessage struct {
	Model        string         `json:"model"`
	ID           string         `json:"id"`
	Type         string         `json:"type"`
	Role         string         `json:"role"`
	Content      []any          `json:"content"`
	StopReason   *string        `json:"stop_reason"`
	StopSequence *string        `json:"stop_sequence"`
	Usage        anthropicUsage `json:"usage"`
}

type anthropicError struct {
	Type      string `json:"type"`
	Error     any    `json:"error"`
	RequestID string `json:"request_id,omitempty"`
}

type typedError struct {
	Type    string        `json:"type"`
	Message string        `json:"message"`
	Details *errorDetails `json:"details,omitempty"`
}

type errorDetails struct {
	Code        string   `json:"error_code"`
	Unsupported []string `json:"unsupported,omitempty"`
}

func (anthropic) usage(u wire.Usage) anthropicUsage {
	return anthropicUsage{
		Input: u.Uncached, CacheCreation: u.Write5m + u.Write1h, CacheRead: u.Read,
		ByLifetime: &anthropicLifetime{u.Write5m, u.Write1h}, Output: u.Output, ServiceTier: "standard",
	}
}

func (anthropic) message(c *query) anthropicMessage {
	return anthropicMessage{
		Model: c.view.Model, ID: "msg_" + c.id, Type: "message", Role: "assistant",
		Content: []any{}, Usage: anthropic{}.usage(c.usage),
	}
}

func (anthropic) stopReason(a *Answer) string {
	switch {
	case a.StopReason != "":
		return a.StopReason
	case a.calls():
		return "tool_use"
	}
	return "end_turn"
}

// block returns a block of an answer: whole, or empty as in content_block_start if open is set.
func (anthropic) block(b *Block, open bool) any {
	text, signature, input := b.Text, b.Signature, b.Input
	if open {
		text, signature, input = "", "", json.RawMessage("{}")
	}
	switch b.Type {
	case Thinking:
		return struct {
			Type      string `json:"type"`
			Thinking  string `json:"thinking"`
			Signature string `json:"signature"`
		}{"thinking", text, signature}
	case ToolUse:
		return struct {
			Type  string          `json:"type"`
			ID    string          `json:"id"`
			Name  string          `json:"name"`
			Input json.RawMessage `json:"input"`
		}{"tool_use", b.ID, b.Name, input}
	}
	return struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{"text", text}
}

// JSON encodes a response without a stream.
func (a anthropic) JSON(c *query) []byte {
	m := a.message(c)
	reason := a.stopReason(c.answer)
	m.StopReason = &reason
	for i := range c.answer.Blocks {
		m.Content = append(m.Content, a.block(&c.answer.Blocks[i], false))
	}
	return encode(m)
}

func (a anthropic) events(c *query) [][]byte {
	var out [][]byte
	add := func(name string, data any) {
		out = append(out, []byte("event: "+name+"\ndata: "+string(encode(data))+"\n\n"))
	}
	start := a.message(c)
	start.Usage.Output = min(1, c.usage.Output)
	add("message_start", struct {
		Type    string           `json:"type"`
		Message anthropicMessage `json:"message"`
	}{"message_start", start})
	type delta struct {
		Type      string  `json:"type"`
		Text      *string `json:"text,omitempty"`
		Thinking  *string `json:"thinking,omitempty"`
		Signature *string `json:"signature,omitempty"`
		JSON      *string `json:"partial_json,omitempty"`
	}
	for i := range c.answer.Blocks {
		b := &c.answer.Blocks[i]
		add("content_block_start", struct {
			Type  string `json:"type"`
			Index int    `json:"index"`
			Block any    `json:"content_block"`
		}{"content_block_start", i, a.block(b, true)})
		if i == 0 {
			add("ping", typedOnly{"ping"})
		}
		send := func(d delta) {
			add("content_block_delta", struct {
				Type  string `json:"type"`
				Index int    `json:"index"`
				Delta delta  `json:"delta"`
			}{"content_block_delta", i, d})
		}
		switch b.Type {
		case Thinking:
			for _, s := range chunks(b.Text, chunkSize) {
				send(delta{Type: "thinking_delta", Thinking: &s})
			}
			send(delta{Type: "signature_delta", Signature: &b.Signature})
		case ToolUse:
			for _, s := range chunks(string(b.Input), chunkSize) {
				send(delta{Type: "input_json_delta", JSON: &s})
			}
		default:
			for _, s := range chunks(b.Text, chunkSize) {
				send(delta{Type: "text_delta", Text: &s})
			}
		}
		add("content_block_stop", struct {
			Type  string `json:"type"`
			Index int    `json:"index"`
		}{"content_block_stop", i})
	}
	final := a.usage(c.usage)
	final.ServiceTier, final.ByLifetime = "", nil // message_start has these
	add("message_delta", struct {
		Type  string         `json:"type"`
		Delta any            `json:"delta"`
		Usage anthropicUsage `json:"usage"`
	}{"message_delta", struct {
		StopReason   string  `json:"stop_reason"`
		StopSequence *string `json:"stop_sequence"`
	}{a.stopReason(c.answer), nil}, final})
	add("message_stop", typedOnly{"message_stop"})
	return out
}

type typedOnly struct {
	Type string `json:"type"`
}

func (anthropic) failure(f Failure, id string) []byte {
	e := typedError{Type: f.Type, Message: f.Message}
	if f.Code != "" {
		e.Details = &errorDetails{f.Code, f.Unsupported}
	}
	return encode(anthropicError{Type: "error", Error: e, RequestID: id})
}

func (anthropic) streamType() string { return eventStream }

func (anthropic) requestID() string { return "request-id" }

func (anthropic) schema(output gjson.Result) gjson.Result { return formatSchema(output) }
