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

import "github.com/caddy-llm-cache/caddy-llm-cache/wire"

// The clients' names of what more than one writer leaves out.
var (
	reasoningField = map[wire.Format]string{wire.Anthropic: "thinking", wire.OpenAIChat: "reasoning_effort", wire.OpenAIResponses: "reasoning.effort", wire.Gemini: "generationConfig.thinkingConfig"}
	outputField    = map[wire.Format]string{wire.Anthropic: "output_config.format", wire.OpenAIChat: "response_format", wire.OpenAIResponses: "text.format", wire.Gemini: "generationConfig.responseMimeType"}
	parallelField  = map[wire.Format]string{wire.Anthropic: "tool_choice.disable_parallel_tool_use", wire.OpenAIChat: "parallel_tool_calls", wire.OpenAIResponses: "parallel_tool_calls"}
	choiceField    = map[wire.Format]string{wire.OpenAIChat: "tool_choice", wire.OpenAIResponses: "tool_choice", wire.Gemini: "toolConfig.functionCallingConfig.mode"}
	failedField    = map[wire.Format]string{wire.Anthropic: "messages[].content[].is_error", wire.Gemini: "contents[].parts[].functionResponse.response.error"}
	strictField    = map[wire.Format]string{wire.Anthropic: "tools[].strict", wire.OpenAIChat: "tools[].function.strict", wire.OpenAIResponses: "tools[].strict"}
)

// Where a marker of the cache stood.
const (
	inTools    = "tools[]"
	inSystem   = "system[]"
	inMessages = "messages[].content[]"
)

// markerField returns the client's name of a marker that is left out.
func markerField(client wire.Format, place string) string {
	switch client {
	case wire.OpenAIChat:
		if place == inSystem {
			place = inMessages
		}
		return place + ".cache_control"
	case wire.OpenAIResponses:
		return "input[].content[].prompt_cache_breakpoint"
	}
	return place + ".cache_control"
}
