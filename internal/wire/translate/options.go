// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

// Options say what the upstream behind a translation takes.
type Options struct {
	// Model maps the client's name of a model to the upstream's. Default: the
	// same name.
	Model func(string) string
	// MaxTokens is the bound on the answer where the upstream's format needs
	// one and the client gave none. Default: 8192.
	MaxTokens int
	// Official tells that the upstream is the provider's own API, which refuses
	// members and proofs of reasoning that are not its own. Anything else, such
	// as a local engine, gets the thinking of earlier turns as text, one string
	// where a content has several texts, and reminders folded into the message
	// before them, which chat templates can render at all places.
	Official bool
	// CacheControl keeps cache_control toward openai_chat, for gateways that
	// pass it on to Claude models.
	CacheControl bool
	// Breakpoints turns cache_control into prompt_cache_breakpoint toward the
	// OpenAI formats, for the models that take it (gpt-5.6 and later).
	Breakpoints bool
	// CacheKey is the prompt_cache_key to send to OpenAI's own API where the
	// client gave none, at most 64 characters. Default: none.
	CacheKey string
	// Progress has a llama.cpp server tell how long the prompt is before it
	// answers (return_progress), where the client wants to know that early:
	// message_start of anthropic. Only toward openai_chat.
	Progress bool
	// NoEffort: the upstream takes the effort "none", by which a model does not think.
	NoEffort bool
	// Plain leaves out what the client did not ask for in any format: a marker of the
	// cache, CacheKey and Progress.
	Plain bool
	// NameLimit is the longest name of a tool, in bytes. Default: 128 for
	// anthropic, 64 for the others.
	NameLimit int
	// SystemMessages says what becomes of a system message in the middle of a
	// conversation. Default: InPlace for an official openai_chat or
	// openai_responses upstream and for the Claude models that take them,
	// Folded for all others.
	SystemMessages SystemMessages
}

// SystemMessages says what becomes of system messages in the middle of a
// conversation.
type SystemMessages string

// The ways to carry a system message in the middle of a conversation.
const (
	// InPlace keeps it a message of its own, where it stands.
	InPlace SystemMessages = "in_place"
	// Folded appends it as a reminder to the user text or tool result before it.
	Folded SystemMessages = "folded"
)

// defaultMaxTokens is within what every Claude model since 3.5 can answer.
const defaultMaxTokens = 8192

// AnswerLimit is MaxTokens, or its default.
func (o *Options) AnswerLimit() int {
	if o.MaxTokens > 0 {
		return o.MaxTokens
	}
	return defaultMaxTokens
}
