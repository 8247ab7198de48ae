// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

// Format names a wire format in configurations, records and metrics. Like a [crypto.Hash] it stands
// for its registered implementation, see [Register].
type Format string

// The formats.
const (
	// Anthropic is the Messages API: POST …/v1/messages.
	Anthropic Format = "anthropic"
	// OpenAIChat is the chat completions API: POST …/v1/chat/completions.
	OpenAIChat Format = "openai_chat"
	// OpenAIResponses is the Responses API: POST …/responses.
	OpenAIResponses Format = "openai_responses"
	// Gemini is the Gemini API: POST …/models/{model}:generateContent and :streamGenerateContent.
	// Its clients treat any comment or non-answer event as a broken stream, so nothing may be added
	// to a stream.
	Gemini Format = "gemini"
	// Interactions is the Interactions API of Gemini: POST …/interactions.
	Interactions Format = "interactions"
)
