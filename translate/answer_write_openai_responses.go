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

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

func responseStatus(m *message) string {
	switch m.reason() {
	case stopLength, stopContext, stopFilter, stopRefusal:
		return "incomplete"
	}
	return "completed"
}

// appendResponseHead begins a response object.
func appendResponseHead(b []byte, c *collected, status string) []byte {
	b = append(b, `{"id":"`...)
	b = appendEscaped(b, c.message.id)
	b = append(b, `","object":"response","created_at":`...)
	b = strconv.AppendInt(b, c.flow.asked.Created, 10)
	b = append(b, `,"status":"`...)
	b = append(b, status...)
	b = append(b, `","model":"`...)
	b = appendEscaped(b, c.message.model)
	return append(b, `","parallel_tool_calls":true,"tool_choice":"auto","tools":[]`...)
}

// appendResponse writes an answer of the Responses API, or with a status one
// that is still to come.
func appendResponse(b []byte, c *collected, status string) []byte {
	if status != "" {
		b = appendResponseHead(b, c, status)
		return append(b, `,"error":null,"incomplete_details":null,"output":[],"usage":null}`...)
	}
	status = responseStatus(c.message)
	b = appendResponseHead(b, c, status)
	b = append(b, `,"error":null,"incomplete_details":`...)
	switch {
	case status == "completed":
		b = append(b, "null"...)
	case c.message.reason() == stopFilter || c.message.reason() == stopRefusal:
		b = append(b, `{"reason":"content_filter"}`...)
	default:
		b = append(b, `{"reason":"max_output_tokens"}`...)
	}
	b = append(b, `,"output":[`...)
	for i, p := range c.blocks {
		if i > 0 {
			b = append(b, ',')
		}
		p.at = i
		b = appendResponseItem(b, c.flow, p, "completed")
	}
	b = append(b, `],"usage":`...)
	b = appendResponseUsage(b, c.message)
	return append(b, '}')
}

// appendResponseItem writes a block as an item, without its content while it is
// in progress.
func appendResponseItem(dst []byte, f *flow, b *block, status string) []byte {
	complete := status == "completed"
	tool := f.asked.Names.Client(b.name)
	if b.item == "" {
		prefix := "msg"
		switch {
		case b.kind == blockThinking:
			prefix = "rs"
		case b.kind == blockCall && tool.Custom:
			prefix = "ctc"
		case b.kind == blockCall:
			prefix = "fc"
		}
		b.item = f.invent(prefix, b.at)
	}
	dst = append(dst, `{"id":"`...)
	dst = appendEscaped(dst, b.item)
	switch b.kind {
	case blockThinking:
		dst = append(dst, `","type":"reasoning","summary":[`...)
		if complete && len(b.content) > 0 {
			dst = append(dst, `{"type":"summary_text","text":"`...)
			dst = append(dst, b.content...)
			dst = append(dst, `"}`...)
		}
		dst = append(dst, ']')
		if s := f.seal(b, ""); complete && s != "" {
			dst = append(dst, `,"encrypted_content":"`...)
			dst = appendEscaped(dst, s)
			dst = append(dst, '"')
		}
		return append(dst, '}')
	case blockText:
		dst = append(dst, `","type":"message","role":"assistant","status":"`...)
		dst = append(dst, status...)
		dst = append(dst, `","content":[`...)
		if complete {
			dst = append(dst, `{"type":"output_text","text":"`...)
			dst = append(dst, b.content...)
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
	dst = appendEscaped(dst, f.callID(b))
	if tool.Namespace != "" {
		dst = append(dst, `","namespace":"`...)
		dst = appendEscaped(dst, tool.Namespace)
	}
	dst = append(dst, `","name":"`...)
	dst = appendEscaped(dst, tool.Name)
	content := ""
	if complete {
		content = view(b.content)
	}
	if tool.Custom {
		dst = append(dst, `","input":`...)
		dst = appendCustomInput(dst, content)
		return append(dst, '}')
	}
	dst = append(dst, `","arguments":"`...)
	dst = append(dst, content...)
	return append(dst, `"}`...)
}

// appendCustomInput writes the text that a custom tool takes, which went
// through the upstream as the member "input" of an object. A model that wrote
// something else gets it all passed on.
func appendCustomInput(dst []byte, inside string) []byte {
	if text := plain(inside); wire.Valid(text) {
		if v := gjson.Get(text, "input"); v.Type == gjson.String {
			return appendLine(dst, v.Raw)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, inside...)
	return append(dst, '"')
}

// appendResponseUsage writes the counts, inclusively as in chat completions.
func appendResponseUsage(b []byte, m *message) []byte {
	u := m.usage
	if !u.Reported {
		return append(b, "null"...)
	}
	b = append(b, `{"input_tokens":`...)
	b = strconv.AppendInt(b, u.Prompt(), 10)
	b = append(b, `,"input_tokens_details":`...)
	b = appendInputDetails(b, u)
	b = append(b, `,"output_tokens":`...)
	b = strconv.AppendInt(b, u.Output, 10)
	b = append(b, `,"output_tokens_details":{"reasoning_tokens":`...)
	b = strconv.AppendInt(b, m.reasoning, 10)
	b = append(b, `},"total_tokens":`...)
	b = strconv.AppendInt(b, u.Prompt()+u.Output, 10)
	return append(b, '}')
}
