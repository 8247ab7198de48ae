// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

// Why requests are refused, where formats share the reason.
const (
	// CannotCompact: the client relies on the provider's compacting the conversation.
	CannotCompact = "only the provider's own API can compact"
	// ForeignCompaction: a compacted conversation is sealed.
	ForeignCompaction = "a compaction is not understood by another provider"
	// NotStored: the request refers to an answer, a conversation or a prompt by its id.
	NotStored = "what the provider has stored cannot be read by another one"
	// ForeignFile: the request refers to a file by its id.
	ForeignFile = "a file that lies at the provider cannot be read by another one"
	// ForeignTool: the client would run it, but the provider says what it takes.
	ForeignTool = "a tool that the provider defines has no counterpart at this upstream"
	// ForeignChoice: a tool that only the provider has must be called.
	ForeignChoice = "the choice has no counterpart at this upstream"
	// NoLogprobs: the client asks for the probabilities of tokens.
	NoLogprobs = "the upstream gives no log probabilities"
	// OneAnswer: the client asks for several.
	OneAnswer = "only one answer can be asked for"
	// TextOnly: the client asks for sounds or images.
	TextOnly = "the upstream answers in text only"
	// NoSafeguards: the client leaves safety checks to the provider. It runs them itself
	// once a 400 names the field.
	NoSafeguards = "only the provider's own API runs these checks"
)
