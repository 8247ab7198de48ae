// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
)

// claudeCode sends Messages requests like Claude Code: messages before system and tools, cache markers on the
// identity line, the main system prompt and the last block of the last message. The next request sends the marked
// message without its marker, and a lone text of the user as a plain string.
type claudeCode struct {
	head, tail []byte
	// earlier are all messages but the last, each followed by a comma.
	earlier []byte
	// last is the last message as the next request sends it, marked the message as sent now.
	last, marked []byte
	marker       string
}

type claudeShape struct {
	model    string
	long     bool // a cache lifetime of one hour
	adaptive bool // the model decides the length of its thinking
}

func newClaudeCode(s setting, shape claudeShape) *claudeCode {
	c := &claudeCode{marker: `"cache_control":{"type":"ephemeral"}`}
	if shape.long {
		c.marker = `"cache_control":{"type":"ephemeral","ttl":"1h"}`
	}
	c.head = []byte(`{"model":` + string(quote(shape.model)) + `,"messages":[`)
	tail := append([]byte(`],"system":[`), c.system(s)...)
	tail = append(append(tail, `],"tools":[`...), claudeTools(s.tools)...)
	user := string(quote(`{"device_id":"` + hex.EncodeToString(make([]byte, 32)) + `","account_uuid":"","session_id":"` +
		s.session + `"}`))
	tail = append(tail, `],"metadata":{"user_id":`+user+`},"max_tokens":32000,"thinking":`...)
	if shape.adaptive {
		tail = append(tail, `{"type":"adaptive"}`...)
	} else {
		tail = append(tail, `{"budget_tokens":31999,"type":"enabled"}`...)
	}
	tail = append(tail, `,"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]}`...)
	if shape.adaptive {
		tail = append(tail, `,"output_config":{"effort":"high"}`...)
	}
	c.tail = append(tail, `,"stream":true}`...)
	return c
}

// system returns the recorded system prompt with a marker on its last block, or Claude Code's own blocks.
func (c *claudeCode) system(s setting) []byte {
	if len(s.system) > 0 {
		var out []byte
		for i, block := range s.system {
			if i > 0 {
				out = append(out, ',')
			}
			if i == len(s.system)-1 {
				block = member(block, c.marker)
			}
			out = append(out, block...)
		}
		return out
	}
	// Without a recording these are a line that depends on the first message, without a marker, the identity line
	// and the main prompt.
	text := func(t string) []byte { return append(append([]byte(`{"type":"text","text":`), quote(t)...), '}') }
	sum := sha256.Sum256([]byte(s.first))
	version := "2.1.328." + hex.EncodeToString(sum[:2])[:3]
	out := append(text("x-anthropic-billing-header: cc_version="+version+"; cc_entrypoint=cli;"), ',')
	out = append(append(out, member(text("You are Claude Code, Anthropic's official CLI for Claude."), c.marker)...), ',')
	return append(out, member(text(filler("You help with software engineering tasks.", s.filler)), c.marker)...)
}

func claudeTools(tools []tool) []byte {
	var out []byte
	for i, t := range tools {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(out, `{"name":`...), quote(t.name)...)
		out = append(append(out, `,"description":`...), quote(t.description)...)
		out = append(out, `,"input_schema":{"type":"object"}}`...)
	}
	return out
}

func (c *claudeCode) Add(messages []recording.Message) {
	for i := range messages {
		if c.last != nil {
			c.earlier = append(append(c.earlier, c.last...), ',')
		}
		c.last = c.message(&messages[i], false)
	}
	c.marked = c.message(&messages[len(messages)-1], true)
}

func (c *claudeCode) message(m *recording.Message, marked bool) []byte {
	out := []byte(`{"role":"` + m.Role + `","content":`)
	if !marked && m.Role == "user" && len(m.Content) == 1 && m.Content[0].Type == "text" {
		out = append(out, gjson.GetBytes(m.Content[0].Raw, "text").Raw...)
		return append(out, '}')
	}
	out = append(out, '[')
	for i := range m.Content {
		raw := m.Content[i].Raw
		if i > 0 {
			out = append(out, ',')
		}
		if marked && i == len(m.Content)-1 {
			raw = member(raw, c.marker)
		}
		out = append(out, raw...)
	}
	return append(out, `]}`...)
}

func (c *claudeCode) Body() []byte {
	b := make([]byte, 0, len(c.head)+len(c.earlier)+len(c.marked)+len(c.tail))
	b = append(append(b, c.head...), c.earlier...)
	return append(append(b, c.marked...), c.tail...)
}
