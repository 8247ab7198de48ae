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

// Param is a value that formats have under different names.
type Param int

// The parameters.
const (
	MaxTokens Param = iota
	Temperature
	TopP
	TopK
	Seed
	PresencePenalty
	FrequencyPenalty
	UserID
	ServiceTier
	CacheKey
	Verbosity
	paramCount
)

// paramNames are the paths of the parameters in each format, empty where the
// format has none.
var paramNames = [paramCount]map[wire.Format]string{
	MaxTokens:        {wire.Anthropic: "max_tokens", wire.OpenAIChat: "max_completion_tokens", wire.OpenAIResponses: "max_output_tokens", wire.Gemini: "generationConfig.maxOutputTokens"},
	Temperature:      {wire.Anthropic: "temperature", wire.OpenAIChat: "temperature", wire.OpenAIResponses: "temperature", wire.Gemini: "generationConfig.temperature"},
	TopP:             {wire.Anthropic: "top_p", wire.OpenAIChat: "top_p", wire.OpenAIResponses: "top_p", wire.Gemini: "generationConfig.topP"},
	TopK:             {wire.Anthropic: "top_k", wire.Gemini: "generationConfig.topK"},
	Seed:             {wire.OpenAIChat: "seed", wire.Gemini: "generationConfig.seed"},
	PresencePenalty:  {wire.OpenAIChat: "presence_penalty", wire.Gemini: "generationConfig.presencePenalty"},
	FrequencyPenalty: {wire.OpenAIChat: "frequency_penalty", wire.Gemini: "generationConfig.frequencyPenalty"},
	UserID:           {wire.Anthropic: "metadata.user_id", wire.OpenAIChat: "user", wire.OpenAIResponses: "user"},
	ServiceTier:      {wire.Anthropic: "service_tier", wire.OpenAIChat: "service_tier", wire.OpenAIResponses: "service_tier"},
	CacheKey:         {wire.OpenAIChat: "prompt_cache_key", wire.OpenAIResponses: "prompt_cache_key"},
	Verbosity:        {wire.OpenAIChat: "verbosity", wire.OpenAIResponses: "text.verbosity"},
}
