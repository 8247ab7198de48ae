// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

// Reasons for refusals, shared by formats.
const (
	// CannotCompact: the client relies on compaction by the provider.
	CannotCompact = "only the provider's own API can compact"
	// ForeignCompaction: a compacted conversation is encrypted.
	ForeignCompaction = "a compaction is not understood by another provider"
	// NotStored: the request refers to an answer, a conversation or a prompt by its id.
	NotStored = "what the provider has stored cannot be read by another one"
	// ForeignFile: the request refers to a file by its id.
	ForeignFile = "a file that lies at the provider cannot be read by another one"
	// ForeignTool: the client runs the tool, but the provider defines its input.
	ForeignTool = "a tool that the provider defines has no counterpart at this upstream"
	// ForeignChoice: the request forces a tool of the provider.
	ForeignChoice = "the choice has no counterpart at this upstream"
	// NoLogprobs: the client asks for log probabilities.
	NoLogprobs = "the upstream gives no log probabilities"
	// OneAnswer: the client asks for several answers.
	OneAnswer = "only one answer can be asked for"
	// TextOnly: the client asks for audio or images.
	TextOnly = "the upstream answers in text only"
	// NoSafeguards: the client asks the provider for safety checks. It runs them itself after a 400
	// that names the field.
	NoSafeguards = "only the provider's own API runs these checks"
)
