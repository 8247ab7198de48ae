// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openaichat

import (
	"strconv"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/openai"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

var reasons = [...]string{
	wire.StopUnknown: "stop", wire.StopEnd: "stop", wire.StopLength: "length", wire.StopCalls: "tool_calls",
	wire.StopSequence: "stop",
	wire.StopRefusal:  "content_filter", wire.StopFilter: "content_filter", wire.StopPause: "stop",
	wire.StopContext: "length",
}

// finishReason returns the finish_reason of an answer.
func finishReason(m *translate.Answer) string {
	if r := m.Reason(); r != wire.StopOther {
		return reasons[r]
	}
	// An unknown reason is passed on unchanged. Clients of chat completions must expect the reasons
	// of many hosts, and the API's own list has grown before.
	return m.Word
}

// appendUsage writes the usage of an answer.
func appendUsage(b []byte, m *translate.Answer) []byte {
	return append(usage.Append(append(b, '{'), m.Usage, m.Reasoning), '}')
}

// appendSealed writes sealed reasoning as OpenRouter writes encrypted reasoning.
func appendSealed(b []byte, sealed string) []byte {
	b = append(b, `{"type":"reasoning.encrypted","data":"`...)
	b = rawjson.AppendEscaped(b, sealed)
	return append(b, `","format":"unknown","index":0}`...)
}

// appendImage writes an image in the form of OpenRouter. OpenAI's API has no images in answers.
func appendImage(b []byte, media, data string) []byte {
	b = append(b, `{"type":"image_url","image_url":{"url":"data:`...)
	b = rawjson.AppendEscaped(b, media)
	return append(append(append(b, ";base64,"...), data...), `"}}`...)
}

// appendCall writes an entry of tool_calls. A negative index is omitted.
func appendCall(b []byte, f *translate.Flow, p *translate.Block, index int) []byte {
	b = append(b, '{')
	if index >= 0 {
		b = append(b, `"index":`...)
		b = strconv.AppendInt(b, int64(index), 10)
		b = append(b, ',')
	}
	b = append(b, `"id":"`...)
	b = rawjson.AppendEscaped(b, f.CallID(p))
	tool := f.Asked.Names.Client(p.Name)
	kind, input := "function", "arguments"
	if tool.Custom {
		kind, input = "custom", "input"
	}
	b = append(b, `","type":"`...)
	b = append(b, kind...)
	b = append(b, `","`...)
	b = append(b, kind...)
	b = append(b, `":{"name":"`...)
	b = rawjson.AppendEscaped(b, tool.Name)
	b = append(b, `","`...)
	b = append(b, input...)
	b = append(b, `":`...)
	if tool.Custom {
		b = openai.AppendCustomInput(b, rawjson.View(p.Content))
	} else {
		b = append(append(append(b, '"'), p.Content...), '"')
	}
	return append(b, `}}`...)
}

// appendAnswer writes an answer of chat completions.
func appendAnswer(b []byte, c *translate.Collected) []byte {
	b = append(b, `{"id":"`...)
	b = rawjson.AppendEscaped(b, c.Answer.ID)
	b = append(b, `","object":"chat.completion","created":`...)
	b = strconv.AppendInt(b, c.Flow.Asked.Created, 10)
	b = append(b, `,"model":"`...)
	b = rawjson.AppendEscaped(b, c.Answer.Model)
	b = append(b, `","choices":[{"index":0,"message":{"role":"assistant","content":`...)
	if c.Has(translate.TextBlock) {
		b = append(b, '"')
		b = c.Join(b, translate.TextBlock)
		b = append(b, '"')
	} else {
		b = append(b, "null"...)
	}
	if c.Has(translate.ThinkingBlock) {
		b = append(b, `,"reasoning_content":"`...)
		b = c.Join(b, translate.ThinkingBlock)
		b = append(b, '"')
	}
	b = c.List(b, `,"reasoning_details":[`, func(b []byte, p *translate.Block) []byte {
		if p.Kind != translate.ThinkingBlock || p.Signature == "" {
			return b
		}
		return appendSealed(b, c.Flow.Seal(p, rawjson.Plain(rawjson.View(p.Content))))
	})
	b = c.List(b, `,"images":[`, func(b []byte, p *translate.Block) []byte {
		if p.Kind != translate.ImageBlock {
			return b
		}
		return appendImage(b, p.Name, rawjson.View(p.Content))
	})
	b = c.List(b, `,"tool_calls":[`, func(b []byte, p *translate.Block) []byte {
		if p.Kind != translate.CallBlock {
			return b
		}
		return appendCall(b, c.Flow, p, -1)
	})
	b = append(b, `},"finish_reason":"`...)
	b = rawjson.AppendEscaped(b, finishReason(c.Answer))
	b = append(b, `"}]`...)
	if c.Answer.Usage.Reported {
		b = append(b, `,"usage":`...)
		b = appendUsage(b, c.Answer)
	}
	return append(b, '}')
}
