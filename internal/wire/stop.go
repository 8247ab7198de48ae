// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "strings"

// StopReason is the reason for the end of an answer.
type StopReason uint8

// The stop reasons.
const (
	StopUnknown StopReason = iota // not reported
	StopEnd
	StopLength
	StopCalls
	StopSequence
	StopRefusal
	StopFilter  // a filter of the provider cut it off
	StopPause   // the model wants to be called again
	StopContext // the context window is full
	StopOther   // unknown word
	StopFailed  // the provider aborted the answer
)

// reasons maps the stop reasons of all APIs and hosts, in lower case. One table serves all formats,
// because hosts mix the words of several APIs: Z.ai, DeepSeek and OpenRouter have their own in chat
// completions, and gateways use Google's.
var reasons = map[string]StopReason{
	"stop": StopEnd, "end_turn": StopEnd, "completed": StopEnd, "eos": StopEnd, "eos_token": StopEnd,
	"finish_reason_unspecified": StopEnd,

	"length": StopLength, "max_tokens": StopLength, "max_output_tokens": StopLength, "max_length": StopLength,
	"incomplete": StopLength, "budget_exceeded": StopLength,

	"tool_calls": StopCalls, "tool_use": StopCalls, "function_call": StopCalls, "requires_action": StopCalls,

	"stop_sequence": StopSequence,
	"refusal":       StopRefusal,

	"content_filter": StopFilter, "sensitive": StopFilter, "guardrail_intervened": StopFilter, "safety": StopFilter,
	"recitation": StopFilter, "language": StopFilter,
	"blocklist": StopFilter, "prohibited_content": StopFilter, "spii": StopFilter, "model_armor": StopFilter,
	"image_safety": StopFilter, "image_prohibited_content": StopFilter, "image_recitation": StopFilter,

	"pause_turn": StopPause, "requires_continuation": StopPause,

	"model_context_window_exceeded": StopContext, "context_length_exceeded": StopContext, "model_length": StopContext,

	"error": StopFailed, "failed": StopFailed, "cancelled": StopFailed, "canceled": StopFailed, "abort": StopFailed,
	"aborted":       StopFailed,
	"network_error": StopFailed, "insufficient_system_resource": StopFailed, "timeout": StopFailed,
	"malformed_function_call": StopFailed, "unexpected_tool_call": StopFailed, "too_many_tool_calls": StopFailed,
	"malformed_response": StopFailed, "missing_thought_signature": StopFailed, "no_image": StopFailed,
	"image_other": StopFailed,
}

// StopReasonOf parses an API's stop reason.
func StopReasonOf(word string) StopReason {
	if word == "" {
		return StopUnknown
	}
	if r, ok := reasons[strings.ToLower(word)]; ok {
		return r
	}
	return StopOther
}
