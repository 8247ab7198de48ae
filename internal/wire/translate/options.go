// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

// Options describe the upstream of a translation.
type Options struct {
	// Model maps the client's model name to the upstream's. Default: the same name.
	Model func(string) string
	// MaxTokens is the limit on the answer if the upstream's format requires one and the request
	// has none. Default: 8192.
	MaxTokens int
	// Official: the upstream is the provider's own API, which rejects unknown members and foreign
	// reasoning signatures. Other upstreams, such as local servers, get a form that every chat
	// template can render: earlier thinking as text, one string in place of several texts, and
	// system reminders folded into the preceding message.
	Official bool
	// CacheControl keeps cache_control toward openai_chat, for gateways that forward it to Claude
	// models.
	CacheControl bool
	// Marks: an upstream that is not Official caches what is marked. The last block of a conversation
	// is marked if the client marks none.
	Marks bool
	// Breakpoints converts cache_control to prompt_cache_breakpoint toward the OpenAI formats, for
	// models that support it (gpt-5.6 and later).
	Breakpoints bool
	// CacheKey is the prompt_cache_key for OpenAI's own API if the request has none, at most 64
	// characters. Default: none.
	CacheKey string
	// Progress makes a llama.cpp server report the prompt's length before its answer
	// (return_progress), for clients that need it early: message_start of anthropic. Only toward
	// openai_chat.
	Progress bool
	// NoEffort: the upstream supports the effort "none", which disables thinking.
	NoEffort bool
	// Plain adds nothing that the client did not request: no cache marker, no CacheKey, no
	// Progress.
	Plain bool
	// NameLimit is the maximum length of a tool name, in bytes. Default: 128 for anthropic, 64 for
	// the others.
	NameLimit int
	// SystemMessages is the handling of system messages in the middle of a conversation. Default:
	// InPlace for an official openai_chat or openai_responses upstream and for Claude models that
	// support them, Folded for all others.
	SystemMessages SystemMessages
}

// SystemMessages is a way to handle system messages in the middle of a conversation.
type SystemMessages string

// The ways to handle system messages in the middle of a conversation.
const (
	// InPlace keeps the message at its position.
	InPlace SystemMessages = "in_place"
	// Folded appends the message as a reminder to the preceding user text or tool result.
	Folded SystemMessages = "folded"
)

// defaultMaxTokens is supported by every Claude model since 3.5.
const defaultMaxTokens = 8192

// AnswerLimit returns MaxTokens, or its default.
func (o *Options) AnswerLimit() int {
	if o.MaxTokens > 0 {
		return o.MaxTokens
	}
	return defaultMaxTokens
}
