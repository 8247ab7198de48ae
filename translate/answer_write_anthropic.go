// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package translate

import (
	"strconv"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// appendAnthropicHead begins a message object.
func appendAnthropicHead(b []byte, m *message) []byte {
	b = append(b, `{"id":"`...)
	b = appendEscaped(b, m.id)
	b = append(b, `","type":"message","role":"assistant","model":"`...)
	b = appendEscaped(b, m.model)
	return append(b, '"')
}

var anthropicReasons = [...]string{
	stopUnknown: "end_turn", stopEnd: "end_turn", stopLength: "max_tokens", stopCalls: "tool_use", stopSequence: "stop_sequence",
	stopRefusal: "refusal", stopFilter: "refusal", stopPause: "pause_turn", stopContext: "model_context_window_exceeded",
}

func appendAnthropicStop(b []byte, m *message) []byte {
	b = append(b, `"stop_reason":"`...)
	b = append(b, anthropicReasons[m.reason()]...)
	b = append(b, `","stop_sequence":`...)
	if m.sequence == "" {
		return append(b, "null"...)
	}
	b = append(b, '"')
	b = append(b, m.sequence...)
	return append(b, '"')
}

// appendAnthropicUsage writes the counts, which exclude each other.
func appendAnthropicUsage(b []byte, u wire.Usage) []byte {
	b = append(b, `{"input_tokens":`...)
	b = strconv.AppendInt(b, u.Uncached, 10)
	b = append(b, `,"cache_creation_input_tokens":`...)
	b = strconv.AppendInt(b, u.Write5m+u.Write1h, 10)
	b = append(b, `,"cache_read_input_tokens":`...)
	b = strconv.AppendInt(b, u.Read, 10)
	if u.Write5m+u.Write1h > 0 {
		b = append(b, `,"cache_creation":{"ephemeral_5m_input_tokens":`...)
		b = strconv.AppendInt(b, u.Write5m, 10)
		b = append(b, `,"ephemeral_1h_input_tokens":`...)
		b = strconv.AppendInt(b, u.Write1h, 10)
		b = append(b, '}')
	}
	b = append(b, `,"output_tokens":`...)
	b = strconv.AppendInt(b, u.Output, 10)
	return append(b, '}')
}

// appendAnthropic writes an answer of the Messages API.
func appendAnthropic(b []byte, c *collected) []byte {
	b = appendAnthropicHead(b, c.message)
	b = append(b, `,"content":[`...)
	for i, p := range c.blocks {
		if i > 0 {
			b = append(b, ',')
		}
		switch p.kind {
		case blockCall:
			b = append(b, `{"type":"tool_use","id":"`...)
			b = appendEscaped(b, c.flow.callID(p))
			b = append(b, `","name":"`...)
			b = appendEscaped(b, c.flow.asked.Names.Client(p.name).Name)
			b = append(b, `","input":`...)
			b = appendObject(b, view(p.content))
		case blockText:
			b = append(b, `{"type":"text","text":"`...)
			b = append(b, p.content...)
			b = append(b, '"')
		default:
			if p.redacted && c.flow.own() {
				b = append(b, `{"type":"redacted_thinking","data":"`...)
			} else {
				b = append(b, `{"type":"thinking","thinking":"`...)
				b = append(b, p.content...)
				b = append(b, `","signature":"`...)
			}
			b = appendEscaped(b, c.flow.seal(p, ""))
			b = append(b, '"')
		}
		b = append(b, '}')
	}
	b = append(b, `],`...)
	b = appendAnthropicStop(b, c.message)
	b = append(b, `,"usage":`...)
	b = appendAnthropicUsage(b, c.message.usage)
	return append(b, '}')
}
