// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/simulator"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
)

// interactions sends requests like a program with Google's Gen AI SDK and without stored
// interactions: all steps in each request. Thinking comes with its signature, at least before the
// first call.
type interactions struct {
	head, steps, tail []byte
	// names maps call ids to tools: a result names its tool.
	names map[string]string
}

func newInteractions(s setting, model string) *interactions {
	c := &interactions{names: map[string]string{}}
	system := quote(filler("You are a coding agent. You help with software engineering tasks.", s.filler))
	if len(s.system) > 0 {
		system = joined(s.system)
	}
	c.head = append([]byte(`{"model":`+string(quote(model))+`,"store":false,"stream":true,"system_instruction":`),
		system...)
	for i, t := range s.tools {
		if i == 0 {
			c.head = append(c.head, `,"tools":[`...)
		} else {
			c.head = append(c.head, ',')
		}
		c.head = append(append(c.head, `{"type":"function","name":`...), quote(t.name)...)
		c.head = append(append(c.head, `,"description":`...), quote(t.description)...)
		c.head = append(c.head, `,"parameters":{"type":"object"}}`...)
	}
	if len(s.tools) > 0 {
		c.head = append(c.head, ']')
	}
	c.head = append(c.head, `,"input":[`...)
	c.tail = []byte(`],"generation_config":{"thinking_summaries":"auto"}}`)
	return c
}

func (c *interactions) Add(messages []recording.Message) {
	for i := range messages {
		if m := &messages[i]; m.Role == "assistant" {
			c.answer(m)
		} else {
			c.user(m)
		}
	}
}

func (c *interactions) answer(m *recording.Message) {
	signed := false
	for i := range m.Content {
		switch b := &m.Content[i]; b.Type {
		case "text":
			c.steps = appendPart(c.steps, `{"type":"model_output","content":[{"type":"text","text":`,
				gjson.GetBytes(b.Raw, "text").Raw, `}]}`)
		case "thinking":
			signed = true
			c.steps = appendPart(c.steps, `{"type":"thought","signature":`, string(quote(b.Signature)),
				`,"summary":[{"type":"text","text":`, gjson.GetBytes(b.Raw, "thinking").Raw, `}]}`)
		case "tool_use":
			// Thinking is signed. A first call without thinking gets a signature of its own.
			if !signed {
				signed = true
				c.steps = appendPart(c.steps, `{"type":"thought","signature":`,
					string(quote(simulator.Sign(b.Name+" "+string(b.Input)))), `}`)
			}
			c.names[b.ID] = b.Name
			c.steps = appendPart(c.steps, `{"type":"function_call","id":`, string(quote(b.ID)), `,"name":`,
				string(quote(b.Name)), `,"arguments":`, string(b.Input), `}`)
		}
	}
}

func (c *interactions) user(m *recording.Message) {
	var said []json.RawMessage
	for i := range m.Content {
		b := &m.Content[i]
		if b.Type != "tool_result" {
			said = append(said, b.Raw)
			continue
		}
		c.steps = appendPart(c.steps, `{"type":"function_result","call_id":`, string(quote(b.ToolUseID)), `,"name":`,
			string(quote(c.names[b.ToolUseID])))
		if gjson.GetBytes(b.Raw, "is_error").Bool() {
			c.steps = append(c.steps, `,"is_error":true`...)
		}
		c.steps = append(append(append(c.steps, `,"result":`...), result(b.Content)...), '}')
	}
	if len(said) > 0 {
		c.steps = appendPart(c.steps, `{"type":"user_input","content":`, string(contents(said)), `}`)
	}
}

func result(content json.RawMessage) []byte {
	switch {
	case len(content) == 0:
		return []byte(`""`)
	case content[0] != '[':
		return content
	}
	var blocks []json.RawMessage
	gjson.ParseBytes(content).ForEach(func(_, v gjson.Result) bool {
		blocks = append(blocks, json.RawMessage(v.Raw))
		return true
	})
	return contents(blocks)
}

func contents(blocks []json.RawMessage) []byte {
	var out []byte
	for _, block := range blocks {
		b := gjson.ParseBytes(block)
		if b.Get("type").Str != "image" {
			out = appendPart(out, `{"type":"text","text":`, b.Get("text").Raw, `}`)
			continue
		}
		source := b.Get("source")
		out = appendPart(out, `{"type":"image","mime_type":`, source.Get("media_type").Raw, `,"data":`,
			source.Get("data").Raw, `}`)
	}
	return append(append([]byte{'['}, out...), ']')
}

func (c *interactions) Body() []byte {
	b := make([]byte, 0, len(c.head)+len(c.steps)+len(c.tail))
	return append(append(append(b, c.head...), c.steps...), c.tail...)
}
