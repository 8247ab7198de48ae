// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package interactions

import (
	"strconv"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// names maps the top-level members to their names in [wire.Parse].
var names = wire.Names(map[string]string{
	"model": "model", "input": "messages", "system_instruction": "system", "tools": "tools", "stream": "stream",
	"response_format": "output_config", "previous_interaction_id": "previous_response_id", "store": "store",
})

// parser reads requests.
type parser struct{ *wire.Parser }

// member reads a top-level member without a counterpart in the Messages API.
func (p parser) member(key []byte, value rawjson.Span) {
	switch string(key) {
	case "generation_config":
		if p.Body[value.Start] == '{' {
			p.config(value)
		}
	case "cached_content", "agent", "agent_config", "environment", "continuation_token", "background", "webhook_config":
		// With an agent, cached content, or an answer that is resumed or runs in the background, the
		// request does not contain the model's whole prompt.
		v := string(value.Of(p.Body))
		p.View.Conversation.Partial = p.View.Conversation.Partial || v != "null" && v != "false"
	}
}

// config reads the limits and options in a generation_config.
func (p parser) config(s rawjson.Span) {
	m := rawjson.Walk(p.Body, int(s.Start))
	for m.Next() {
		key := m.Key
		value := m.Skip()
		switch string(key) {
		case "max_output_tokens":
			if n, err := strconv.Atoi(string(value.Of(p.Body))); err == nil {
				p.View.Reply.MaxTokens = n
			}
		case "thinking_level":
			p.View.Reply.Thinking = value
		case "tool_choice":
			p.View.Reply.ToolChoice = value
		}
	}
}

// tools describes tool definitions.
var tools = wire.ToolMembers{Typed: true}
