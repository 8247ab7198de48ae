// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "strings"

// StopReason is why an answer ended.
type StopReason uint8

// Why an answer ends.
const (
	StopUnknown StopReason = iota // not said
	StopEnd
	StopLength
	StopCalls
	StopSequence
	StopRefusal
	StopFilter  // cut off by a filter of the provider
	StopPause   // the model wants to be called again
	StopContext // the context window is full
	StopOther   // by a word that nobody here knows
	StopFailed  // the provider broke the answer off
)

// reasons are the words by which APIs, and the hosts that speak them, say why an answer
// ended, in lower case. It is one table, since hosts use the words of several APIs: Z.ai,
// DeepSeek and OpenRouter have their own in chat completions, and gateways Google's.
var reasons = map[string]StopReason{
	"stop": StopEnd, "end_turn": StopEnd, "completed": StopEnd, "eos": StopEnd, "eos_token": StopEnd, "finish_reason_unspecified": StopEnd,

	"length": StopLength, "max_tokens": StopLength, "max_output_tokens": StopLength, "max_length": StopLength,
	"incomplete": StopLength, "budget_exceeded": StopLength,

	"tool_calls": StopCalls, "tool_use": StopCalls, "function_call": StopCalls, "requires_action": StopCalls,

	"stop_sequence": StopSequence,
	"refusal":       StopRefusal,

	"content_filter": StopFilter, "sensitive": StopFilter, "guardrail_intervened": StopFilter, "safety": StopFilter, "recitation": StopFilter, "language": StopFilter,
	"blocklist": StopFilter, "prohibited_content": StopFilter, "spii": StopFilter, "model_armor": StopFilter,
	"image_safety": StopFilter, "image_prohibited_content": StopFilter, "image_recitation": StopFilter,

	"pause_turn": StopPause, "requires_continuation": StopPause,

	"model_context_window_exceeded": StopContext, "context_length_exceeded": StopContext,

	"error": StopFailed, "failed": StopFailed, "cancelled": StopFailed, "canceled": StopFailed, "abort": StopFailed, "aborted": StopFailed,
	"network_error": StopFailed, "insufficient_system_resource": StopFailed, "timeout": StopFailed,
	"malformed_function_call": StopFailed, "unexpected_tool_call": StopFailed, "too_many_tool_calls": StopFailed,
	"malformed_response": StopFailed, "missing_thought_signature": StopFailed, "no_image": StopFailed, "image_other": StopFailed,
}

// StopReasonOf returns what a word for the end of an answer means.
func StopReasonOf(word string) StopReason {
	if word == "" {
		return StopUnknown
	}
	if r, ok := reasons[strings.ToLower(word)]; ok {
		return r
	}
	return StopOther
}
