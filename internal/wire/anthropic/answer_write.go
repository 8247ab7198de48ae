// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package anthropic

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// appendHead begins a message object.
func appendHead(b []byte, m *translate.Answer) []byte {
	b = append(b, `{"id":"`...)
	b = rawjson.AppendEscaped(b, m.ID)
	b = append(b, `","type":"message","role":"assistant","model":"`...)
	b = rawjson.AppendEscaped(b, m.Model)
	return append(b, '"')
}

var reasons = [...]string{
	wire.StopUnknown: "end_turn", wire.StopEnd: "end_turn", wire.StopLength: "max_tokens", wire.StopCalls: "tool_use",
	wire.StopSequence: "stop_sequence",
	wire.StopRefusal:  "refusal", wire.StopFilter: "refusal", wire.StopPause: "pause_turn",
	wire.StopContext: "model_context_window_exceeded",
	wire.StopOther:   "max_tokens", // clients know no other reason, and the answer may be cut off
}

func appendStop(b []byte, m *translate.Answer) []byte {
	b = append(b, `"stop_reason":"`...)
	b = append(b, reasons[m.Reason()]...)
	b = append(b, `","stop_sequence":`...)
	if m.Sequence == "" {
		return append(b, "null"...)
	}
	b = append(b, '"')
	b = append(b, m.Sequence...)
	return append(b, '"')
}

// appendUsage writes the usage of an answer.
func appendUsage(b []byte, u wire.Usage) []byte {
	return append(appendCounts(append(b, '{'), u, u.Write5m+u.Write1h > 0), '}')
}

func allCounts(b []byte, u wire.Usage, _ int64) []byte { return appendCounts(b, u, true) }

// appendCounts writes the counts of tokens. split adds the cache writes by lifetime.
func appendCounts(b []byte, u wire.Usage, split bool) []byte {
	// The API's counts do not overlap.
	b = rawjson.AppendCount(b, "input_tokens", u.Uncached)
	b = rawjson.AppendCount(b, "cache_creation_input_tokens", u.Write5m+u.Write1h)
	b = rawjson.AppendCount(b, "cache_read_input_tokens", u.Read)
	if split {
		b = append(b, `"cache_creation":{`...)
		b = rawjson.AppendCount(b, "ephemeral_5m_input_tokens", u.Write5m)
		b = rawjson.AppendCount(b, "ephemeral_1h_input_tokens", u.Write1h)
		b = append(b[:len(b)-1], `},`...)
	}
	b = rawjson.AppendCount(b, "output_tokens", u.Output)
	return b[:len(b)-1]
}

// appendAnswer writes an answer of the Messages API.
func appendAnswer(b []byte, c *translate.Collected) []byte {
	b = appendHead(b, c.Answer)
	b = append(b, `,"content":[`...)
	for i, p := range c.Blocks {
		if i > 0 {
			b = append(b, ',')
		}
		switch p.Kind {
		case translate.CallBlock:
			b = append(b, `{"type":"tool_use","id":"`...)
			b = rawjson.AppendEscaped(b, c.Flow.CallID(p))
			b = append(b, `","name":"`...)
			b = rawjson.AppendEscaped(b, c.Flow.Asked.Names.Client(p.Name).Name)
			b = append(b, `","input":`...)
			b = translate.AppendArguments(b, rawjson.View(p.Content))
		case translate.TextBlock:
			b = append(b, `{"type":"text","text":"`...)
			b = append(b, p.Content...)
			b = append(b, '"')
		default:
			if p.Signs == wire.SignsRedacted && c.Flow.SameFormat() {
				b = append(b, `{"type":"redacted_thinking","data":"`...)
			} else {
				b = append(b, `{"type":"thinking","thinking":"`...)
				b = append(b, p.Content...)
				b = append(b, `","signature":"`...)
			}
			b = rawjson.AppendEscaped(b, c.Flow.Seal(p, ""))
			b = append(b, '"')
		}
		b = append(b, '}')
	}
	b = append(b, `],`...)
	b = appendStop(b, c.Answer)
	b = append(b, `,"usage":`...)
	b = appendUsage(b, c.Answer.Usage)
	return append(b, '}')
}
