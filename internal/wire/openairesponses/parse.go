// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openairesponses

import "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"

// names maps the top-level members of a Responses request to their names in [wire.Parse].
var names = wire.Names(map[string]string{
	"model": "model", "input": "messages", "instructions": "system", "tools": "tools", "stream": "stream",
	"max_output_tokens": "max_tokens", "tool_choice": "tool_choice", "reasoning": "thinking", "text": "output_config",
	"context_management": "context_management", "metadata": "metadata", "prompt_cache_key": "prompt_cache_key",
	"prompt_cache_retention": "prompt_cache_retention", "prompt_cache_options": "prompt_cache_options",
	"previous_response_id": "previous_response_id", "conversation": "conversation", "store": "store",
})

// parser reads requests of the Responses API.
type parser struct{ *wire.Parser }

// tools describes tool definitions, in tools and in additional_tools.
var tools = wire.ToolMembers{Typed: true, Defers: true}
