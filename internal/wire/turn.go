// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "time"

// Usage is the reported cost of an answer in tokens. Each token of the prompt counts in exactly one
// field.
type Usage struct {
	// Uncached is the number of prompt tokens neither read from nor written to a cache.
	Uncached int64 `json:"uncached"`
	// Write5m and Write1h are the tokens written to the cache, by lifetime. Writes of unknown
	// lifetime count as Write5m.
	Write5m int64 `json:"write_5m"`
	// Write1h: see Write5m.
	Write1h int64 `json:"write_1h"`
	// Read is the number of tokens read from the cache.
	Read int64 `json:"read"`
	// Output is the number of output tokens, thinking included.
	Output int64 `json:"output"`
	// Reported reports whether the answer had any count above zero.
	Reported bool `json:"reported"`
}

// Prompt returns the length of the whole prompt, in tokens.
func (u Usage) Prompt() int64 { return u.Uncached + u.Write5m + u.Write1h + u.Read }

// Add returns the sum of two usages.
func (u Usage) Add(o Usage) Usage {
	return Usage{u.Uncached + o.Uncached, u.Write5m + o.Write5m, u.Write1h + o.Write1h, u.Read + o.Read, u.Output + o.Output, u.Reported || o.Reported}
}

// Cleared counts the provider's own removals from a prompt, requested by the client
// (context_management of the Messages API). Clients keep sending their whole history, so each
// answer reports the counts again.
type Cleared struct {
	// ToolUses is the number of oldest calls with cleared results.
	ToolUses int64
	// Thinking is the number of turns with cleared thinking.
	Thinking int64
	// Tokens is the number of tokens removed from the prompt, ThinkingTokens its share of thinking.
	Tokens, ThinkingTokens int64
}

// Call is a tool call in an answer.
type Call struct {
	// ID is the id of the call.
	ID string
	// Name is the tool's name.
	Name string
	// Arguments is the complete JSON text of the arguments, as the model wrote it, or the free text
	// for a custom tool of the Responses API.
	Arguments string
	// Free: Arguments is free text.
	Free bool
}

// Timing is the timing of an answer, by the clock of the request handler. Moments that never came
// are zero.
type Timing struct {
	// Queue is the time between the complete request and the hand-over to the upstream.
	Queue time.Duration `json:"queue"`
	// FirstByte, FirstToken and LastToken are counted from the hand-over: to the first byte of the
	// response body, to the first text, thinking or call, and to the end of the answer (its
	// terminal event, or the last byte of JSON).
	FirstByte time.Duration `json:"first_byte"`
	// FirstToken: see FirstByte.
	FirstToken time.Duration `json:"first_token"`
	// LastToken: see FirstByte.
	LastToken time.Duration `json:"last_token"`
}

// Turn is a decoded answer, independent of its format and framing.
type Turn struct {
	// ID and Model are copied from the answer.
	ID, Model string
	// Text and Thinking are the concatenated texts of the answer.
	Text, Thinking string
	// Calls are the tool calls for the client, in order. Calls of the provider's own tools are left
	// out.
	Calls []Call
	// Usage is the final usage.
	Usage Usage
	// Final is the usage of the last model call for the conversation itself. It is set if the
	// provider made several calls (for a compaction, an advisor, a fallback) and reports them
	// separately. Without Reported there was one call.
	Final Usage
	// Iterations are the usages of the model calls summed in Usage, if the provider reports them
	// separately. Price tiers depend on the prompt of a single call.
	Iterations []Usage
	// Service is the service level that the answer reports.
	Service Service
	// Cleared counts the provider's own removals from the prompt.
	Cleared Cleared
	// Compacted reports that the provider summarized the conversation within the answer. Later
	// prompts do not include the blocks before the summary.
	Compacted bool
	// StopReason is the stop reason in the format's own words.
	StopReason string
	// ErrorType and ErrorMessage are set when the answer is, or ends in, an error.
	ErrorType, ErrorMessage string
	// Done reports that the answer is complete: the terminal event of a stream (in Gemini, which
	// has none, a stop reason), a clean end after the stop reason, or a whole JSON value. Aborted
	// streams and streams that end in an error are never done. An error in a JSON body is done, see
	// Failed.
	Done bool
	// Timing is set by the request handler, not by decoders.
	Timing Timing
}

// Held returns the usage of the prompt that the next request continues.
func (t *Turn) Held() Usage {
	// Calls for a compaction, an advisor or a fallback are not part of the conversation.
	if t.Final.Reported {
		return t.Final
	}
	return t.Usage
}

// Failed reports whether the answer is an error.
func (t *Turn) Failed() bool { return t.ErrorType != "" || t.ErrorMessage != "" }
