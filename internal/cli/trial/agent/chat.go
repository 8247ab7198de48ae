// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
)

// chat sends chat completions requests like agents of that format: one system message, a tool
// message for each result, everything else append-only.
type chat struct {
	head, tail []byte
	// messages are all messages, separated by commas.
	messages []byte
	// reasoning reports whether thinking is sent back.
	reasoning bool
}

type chatShape struct {
	model     string
	reasoning bool // sends reasoning_content back, for servers of open models
	cacheKey  bool // sends the session as prompt_cache_key
}

func newChat(s setting, shape chatShape) *chat {
	c := &chat{reasoning: shape.reasoning}
	c.head = []byte(`{"model":` + string(quote(shape.model)) + `,"max_tokens":32000,"messages":[`)
	system := quote(filler("You are a coding agent. You help with software engineering tasks.", s.filler))
	if len(s.system) > 0 {
		system = joined(s.system)
	}
	c.messages = append(append(c.messages, `{"role":"system","content":`...), system...)
	c.messages = append(c.messages, '}')
	tail := []byte(`]`)
	for i, t := range s.tools {
		if i == 0 {
			tail = append(tail, `,"tools":[`...)
		} else {
			tail = append(tail, ',')
		}
		tail = append(append(tail, `{"type":"function","function":{"name":`...), quote(t.name)...)
		tail = append(append(tail, `,"description":`...), quote(t.description)...)
		tail = append(tail, `,"parameters":{"type":"object"}}}`...)
	}
	if len(s.tools) > 0 {
		tail = append(tail, `],"tool_choice":"auto"`...)
	}
	if shape.cacheKey {
		tail = append(append(tail, `,"prompt_cache_key":`...), quote(s.session)...)
	}
	c.tail = append(tail, `,"stream":true,"stream_options":{"include_usage":true}}`...)
	return c
}

func joined(blocks []json.RawMessage) []byte {
	out := []byte{'"'}
	for i, block := range blocks {
		if i > 0 {
			out = append(out, `\n`...)
		}
		if raw := gjson.GetBytes(block, "text").Raw; len(raw) >= 2 {
			out = append(out, raw[1:len(raw)-1]...)
		}
	}
	return append(out, '"')
}

func (c *chat) Add(messages []recording.Message) {
	for i := range messages {
		if m := &messages[i]; m.Role == "assistant" {
			c.assistant(m)
		} else {
			c.user(m)
		}
	}
}

// assistant appends an answer: its text, calls and thinking.
func (c *chat) assistant(m *recording.Message) {
	var texts, thoughts []json.RawMessage
	var calls []byte
	for i := range m.Content {
		switch b := &m.Content[i]; b.Type {
		case "text":
			texts = append(texts, b.Raw)
		case "thinking":
			thoughts = append(thoughts, append(append([]byte(`{"text":`), gjson.GetBytes(b.Raw, "thinking").Raw...), '}'))
		case "tool_use":
			if calls != nil {
				calls = append(calls, ',')
			}
			calls = append(append(calls, `{"id":`...), quote(b.ID)...)
			calls = append(append(calls, `,"type":"function","function":{"name":`...), quote(b.Name)...)
			calls = append(append(calls, `,"arguments":`...), quote(string(b.Input))...)
			calls = append(calls, `}}`...)
		}
	}
	c.messages = append(c.messages, `,{"role":"assistant","content":`...)
	if len(texts) > 0 {
		c.messages = append(c.messages, joined(texts)...)
	} else {
		c.messages = append(c.messages, `null`...)
	}
	if c.reasoning && len(thoughts) > 0 {
		c.messages = append(append(c.messages, `,"reasoning_content":`...), joined(thoughts)...)
	}
	if calls != nil {
		c.messages = append(append(append(c.messages, `,"tool_calls":[`...), calls...), ']')
	}
	c.messages = append(c.messages, '}')
}

// user appends a tool message for each result, then a user message with the rest.
func (c *chat) user(m *recording.Message) {
	var parts []json.RawMessage
	text := true
	for i := range m.Content {
		b := &m.Content[i]
		if b.Type != "tool_result" {
			parts, text = append(parts, b.Raw), text && b.Type == "text"
			continue
		}
		result := []byte(b.Content)
		if len(result) == 0 {
			result = []byte(`""`)
		} else if result[0] == '[' {
			var texts []json.RawMessage
			gjson.ParseBytes(b.Content).ForEach(func(_, v gjson.Result) bool {
				// Tool messages cannot have images, so these go into the user message.
				if v.Get("type").String() == "image" {
					parts, text = append(parts, json.RawMessage(v.Raw)), false
				} else {
					texts = append(texts, json.RawMessage(v.Raw))
				}
				return true
			})
			result = joined(texts)
		}
		c.messages = append(append(c.messages, `,{"role":"tool","tool_call_id":`...), quote(b.ToolUseID)...)
		c.messages = append(append(append(c.messages, `,"content":`...), result...), '}')
	}
	if len(parts) == 0 {
		return
	}
	c.messages = append(c.messages, `,{"role":"user","content":`...)
	if text && len(parts) == 1 {
		c.messages = append(append(c.messages, gjson.GetBytes(parts[0], "text").Raw...), '}')
		return
	}
	for i, p := range parts {
		sep := byte(',')
		if i == 0 {
			sep = '['
		}
		c.messages = append(append(c.messages, sep), chatPart(p)...)
	}
	c.messages = append(c.messages, `]}`...)
}

func chatPart(block json.RawMessage) []byte {
	b := gjson.ParseBytes(block)
	if b.Get("type").String() != "image" {
		return append(append([]byte(`{"type":"text","text":`), b.Get("text").Raw...), '}')
	}
	source := b.Get("source")
	url := quote("data:" + source.Get("media_type").String() + ";base64," + source.Get("data").String())
	return append(append([]byte(`{"type":"image_url","image_url":{"url":`), url...), `}}`...)
}

func (c *chat) Body() []byte {
	b := make([]byte, 0, len(c.head)+len(c.messages)+len(c.tail))
	return append(append(append(b, c.head...), c.messages...), c.tail...)
}
