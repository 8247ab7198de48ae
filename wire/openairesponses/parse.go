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

package openairesponses

import "github.com/caddy-llm-cache/caddy-llm-cache/wire"

// names are those that top-level members of a Responses request have in [wire.Parse].
var names = wire.Names(map[string]string{
	"model": "model", "input": "messages", "instructions": "system", "tools": "tools", "stream": "stream",
	"max_output_tokens": "max_tokens", "tool_choice": "tool_choice", "reasoning": "thinking", "text": "output_config",
	"context_management": "context_management", "metadata": "metadata", "prompt_cache_key": "prompt_cache_key",
	"prompt_cache_retention": "prompt_cache_retention", "prompt_cache_options": "prompt_cache_options",
	"previous_response_id": "previous_response_id", "conversation": "conversation", "store": "store",
})

// parser reads requests of the Responses API.
type parser struct{ *wire.Parser }

// tools are definitions, wherever they stand.
var tools = wire.ToolMembers{Typed: true, Defers: true}
