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

var chatReasons = [...]string{
	stopUnknown: "stop", stopEnd: "stop", stopLength: "length", stopCalls: "tool_calls", stopSequence: "stop",
	stopRefusal: "content_filter", stopFilter: "content_filter", stopPause: "stop", stopContext: "length",
}

// appendChatUsage writes the counts: those of the prompt include what the
// details tell. The part written for an hour has a member of this package's.
func appendChatUsage(b []byte, m *message) []byte {
	u := m.usage
	b = append(b, `{"prompt_tokens":`...)
	b = strconv.AppendInt(b, u.Prompt(), 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, u.Output, 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, u.Prompt()+u.Output, 10)
	b = append(b, `,"prompt_tokens_details":`...)
	b = appendInputDetails(b, u)
	if m.reasoning > 0 {
		b = append(b, `,"completion_tokens_details":{"reasoning_tokens":`...)
		b = strconv.AppendInt(b, m.reasoning, 10)
		b = append(b, '}')
	}
	return append(b, '}')
}

func appendInputDetails(b []byte, u wire.Usage) []byte {
	b = append(b, `{"cached_tokens":`...)
	b = strconv.AppendInt(b, u.Read, 10)
	b = append(b, `,"cache_write_tokens":`...)
	b = strconv.AppendInt(b, u.Write5m+u.Write1h, 10)
	if u.Write1h > 0 {
		b = append(b, `,"cache_write_1h_tokens":`...)
		b = strconv.AppendInt(b, u.Write1h, 10)
	}
	return append(b, '}')
}

// appendChatSealed writes sealed reasoning as OpenRouter writes encrypted reasoning.
func appendChatSealed(b []byte, sealed string) []byte {
	b = append(b, `{"type":"reasoning.encrypted","data":"`...)
	b = appendEscaped(b, sealed)
	return append(b, `","format":"unknown","index":0}`...)
}

// appendChatCall writes an entry of tool_calls, without an index if that is below 0.
func appendChatCall(b []byte, f *flow, p *block, index int) []byte {
	b = append(b, '{')
	if index >= 0 {
		b = append(b, `"index":`...)
		b = strconv.AppendInt(b, int64(index), 10)
		b = append(b, ',')
	}
	b = append(b, `"id":"`...)
	b = appendEscaped(b, f.callID(p))
	tool := f.asked.Names.Client(p.name)
	kind, input := "function", "arguments"
	if tool.Custom {
		kind, input = "custom", "input"
	}
	b = append(b, `","type":"`...)
	b = append(b, kind...)
	b = append(b, `","`...)
	b = append(b, kind...)
	b = append(b, `":{"name":"`...)
	b = appendEscaped(b, tool.Name)
	b = append(b, `","`...)
	b = append(b, input...)
	b = append(b, `":`...)
	if tool.Custom {
		b = appendCustomInput(b, view(p.content))
	} else {
		b = append(append(append(b, '"'), p.content...), '"')
	}
	return append(b, `}}`...)
}

// appendChat writes an answer of chat completions.
func appendChat(b []byte, c *collected) []byte {
	b = append(b, `{"id":"`...)
	b = appendEscaped(b, c.message.id)
	b = append(b, `","object":"chat.completion","created":`...)
	b = strconv.AppendInt(b, c.flow.asked.Created, 10)
	b = append(b, `,"model":"`...)
	b = appendEscaped(b, c.message.model)
	b = append(b, `","choices":[{"index":0,"message":{"role":"assistant","content":`...)
	if c.has(blockText) {
		b = append(b, '"')
		b = c.join(b, blockText)
		b = append(b, '"')
	} else {
		b = append(b, "null"...)
	}
	if c.has(blockThinking) {
		b = append(b, `,"reasoning_content":"`...)
		b = c.join(b, blockThinking)
		b = append(b, '"')
	}
	b = c.list(b, `,"reasoning_details":[`, func(b []byte, p *block) []byte {
		if p.kind != blockThinking || p.signature == "" {
			return b
		}
		return appendChatSealed(b, c.flow.seal(p, plain(view(p.content))))
	})
	b = c.list(b, `,"tool_calls":[`, func(b []byte, p *block) []byte {
		if p.kind != blockCall {
			return b
		}
		return appendChatCall(b, c.flow, p, -1)
	})
	b = append(b, `},"finish_reason":"`...)
	b = append(b, chatReasons[c.message.reason()]...)
	b = append(b, `"}]`...)
	if c.message.usage.Reported {
		b = append(b, `,"usage":`...)
		b = appendChatUsage(b, c.message)
	}
	return append(b, '}')
}
