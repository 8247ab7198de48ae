// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openairesponses

import (
	"strconv"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/openai"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

func statusOf(m *translate.Answer) string {
	switch m.Reason() {
	case wire.StopLength, wire.StopContext, wire.StopFilter, wire.StopRefusal, wire.StopOther:
		return "incomplete"
	}
	return "completed"
}

func appendHead(b []byte, c *translate.Collected, status string) []byte {
	b = append(b, `{"id":"`...)
	b = rawjson.AppendEscaped(b, c.Answer.ID)
	b = append(b, `","object":"response","created_at":`...)
	b = strconv.AppendInt(b, c.Flow.Asked.Created, 10)
	b = append(b, `,"status":"`...)
	b = append(b, status...)
	b = append(b, `","model":"`...)
	b = rawjson.AppendEscaped(b, c.Answer.Model)
	return append(b, `","parallel_tool_calls":true,"tool_choice":"auto","tools":[]`...)
}

// appendAnswer writes a finished answer, or with a status an unfinished one without output.
func appendAnswer(b []byte, c *translate.Collected, status string) []byte {
	if status != "" {
		b = appendHead(b, c, status)
		return append(b, `,"error":null,"incomplete_details":null,"output":[],"usage":null}`...)
	}
	status = statusOf(c.Answer)
	b = appendHead(b, c, status)
	b = append(b, `,"error":null,"incomplete_details":`...)
	switch {
	case status == "completed":
		b = append(b, "null"...)
	case c.Answer.Reason() == wire.StopFilter || c.Answer.Reason() == wire.StopRefusal:
		b = append(b, `{"reason":"content_filter"}`...)
	default:
		b = append(b, `{"reason":"max_output_tokens"}`...)
	}
	b = append(b, `,"output":[`...)
	for i, p := range c.Blocks {
		if i > 0 {
			b = append(b, ',')
		}
		p.At = i
		b = appendItem(b, c.Flow, p, "completed")
	}
	b = append(b, `],"usage":`...)
	b = appendUsage(b, c.Answer)
	return append(b, '}')
}

// appendItem writes a block as an item. An item in progress has no content.
func appendItem(dst []byte, f *translate.Flow, b *translate.Block, status string) []byte {
	complete := status == "completed"
	tool := f.Asked.Names.Client(b.Name)
	if b.Item == "" {
		prefix := "msg"
		switch {
		case b.Kind == translate.ThinkingBlock:
			prefix = "rs"
		case b.Kind == translate.CallBlock && tool.Custom:
			prefix = "ctc"
		case b.Kind == translate.CallBlock:
			prefix = "fc"
		}
		b.Item = f.Invent(prefix, b.At)
	}
	dst = append(dst, `{"id":"`...)
	dst = rawjson.AppendEscaped(dst, b.Item)
	switch b.Kind {
	case translate.ThinkingBlock:
		dst = append(dst, `","type":"reasoning","summary":[`...)
		if complete && len(b.Content) > 0 {
			dst = append(dst, `{"type":"summary_text","text":"`...)
			dst = append(dst, b.Content...)
			dst = append(dst, `"}`...)
		}
		dst = append(dst, ']')
		if s := f.Seal(b, ""); complete && s != "" {
			dst = append(dst, `,"encrypted_content":"`...)
			dst = rawjson.AppendEscaped(dst, s)
			dst = append(dst, '"')
		}
		return append(dst, '}')
	case translate.TextBlock:
		dst = append(dst, `","type":"message","role":"assistant","status":"`...)
		dst = append(dst, status...)
		dst = append(dst, `","content":[`...)
		if complete {
			dst = append(dst, `{"type":"output_text","text":"`...)
			dst = append(dst, b.Content...)
			dst = append(dst, `","annotations":[]}`...)
		}
		return append(dst, `]}`...)
	}
	dst = append(dst, `","type":"`...)
	if tool.Custom {
		dst = append(dst, "custom_tool_call"...)
	} else {
		dst = append(dst, "function_call"...)
	}
	dst = append(dst, `","status":"`...)
	dst = append(dst, status...)
	dst = append(dst, `","call_id":"`...)
	dst = rawjson.AppendEscaped(dst, f.CallID(b))
	if tool.Namespace != "" {
		dst = append(dst, `","namespace":"`...)
		dst = rawjson.AppendEscaped(dst, tool.Namespace)
	}
	dst = append(dst, `","name":"`...)
	dst = rawjson.AppendEscaped(dst, tool.Name)
	content := ""
	if complete {
		content = rawjson.View(b.Content)
	}
	if tool.Custom {
		dst = append(dst, `","input":`...)
		dst = openai.AppendCustomInput(dst, content)
		return append(dst, '}')
	}
	dst = append(dst, `","arguments":"`...)
	dst = append(dst, content...)
	return append(dst, `"}`...)
}

func appendUsage(b []byte, m *translate.Answer) []byte {
	if !m.Usage.Reported {
		return append(b, "null"...)
	}
	return append(usage.Append(append(b, '{'), m.Usage, m.Reasoning), '}')
}
