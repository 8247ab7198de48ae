// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "time"

// Usage is what an answer says it cost, in tokens, in exclusive buckets: each
// token of the prompt stands in just one of them.
type Usage struct {
	// Uncached is the part of the prompt neither read from nor written to a cache.
	Uncached int64 `json:"uncached"`
	// Write5m and Write1h are the parts written to the cache, by lifetime.
	// Providers that do not tell lifetimes apart report in Write5m.
	Write5m int64 `json:"write_5m"`
	// Write1h: see Write5m.
	Write1h int64 `json:"write_1h"`
	// Read is the part read from the cache.
	Read int64 `json:"read"`
	// Output is the length of the answer, thinking included.
	Output int64 `json:"output"`
	// Reported reports whether the answer gave any count above zero.
	Reported bool `json:"reported"`
}

// Prompt returns the length of the whole prompt.
func (u Usage) Prompt() int64 { return u.Uncached + u.Write5m + u.Write1h + u.Read }

// Add returns the sum of two usages.
func (u Usage) Add(o Usage) Usage {
	return Usage{u.Uncached + o.Uncached, u.Write5m + o.Write5m, u.Write1h + o.Write1h, u.Read + o.Read, u.Output + o.Output, u.Reported || o.Reported}
}

// Cleared is what a provider has left out of a prompt by itself, because the client asked
// for it (context_management of the Messages API). Clients go on to send all of their
// history, so that each answer tells it anew.
type Cleared struct {
	// ToolUses counts the calls whose results were left out, the oldest ones.
	ToolUses int64
	// Thinking counts the turns whose thinking was.
	Thinking int64
	// Tokens is what that took of the prompt, ThinkingTokens the part of it that was
	// thinking.
	Tokens, ThinkingTokens int64
}

// Call is a tool call in an answer.
type Call struct {
	// ID is the id of the call.
	ID string
	// Name is the tool's name.
	Name string
	// Arguments is the complete JSON text of the arguments, as the model wrote
	// it, or the free text that a custom tool of the Responses API takes.
	Arguments string
	// Free tells that Arguments is free text.
	Free bool
}

// Timing tells how long an answer took, by the clock of whoever handled it.
// A moment that never came is zero.
type Timing struct {
	// Queue is the time from when the whole request was there to when it was
	// handed on to the upstream.
	Queue time.Duration `json:"queue"`
	// FirstByte, FirstToken and LastToken are counted from the hand-over: to the
	// first byte of the answer's body, to the first text, thinking or call, and
	// to the end of the answer (its terminal event, or the last byte of JSON).
	FirstByte time.Duration `json:"first_byte"`
	// FirstToken: see FirstByte.
	FirstToken time.Duration `json:"first_token"`
	// LastToken: see FirstByte.
	LastToken time.Duration `json:"last_token"`
}

// Turn is an answer, in whichever format and form it came.
type Turn struct {
	// ID and Model are as the answer gives them.
	ID, Model string
	// Text and Thinking are the concatenated texts of the answer.
	Text, Thinking string
	// Calls are the calls of tools that the client is to run, in order; tools
	// that the provider runs itself are left out.
	Calls []Call
	// Usage is the final usage.
	Usage Usage
	// Final is the part of Usage that the last call of the model took for the
	// conversation itself, where the provider made several and tells them apart: for a
	// compaction, an advisor, a fallback. Without Reported there was one.
	Final Usage
	// Iterations are the usages of the calls that Usage sums up, where the provider made
	// several and tells them apart: price tiers go by the prompt of one call.
	Iterations []Usage
	// Service is how the answer says that it was served.
	Service Service
	// Cleared is what the provider has left out of the prompt by itself.
	Cleared Cleared
	// Compacted reports whether the provider has summed up the conversation within the
	// answer: what stands in front of the summary is in no further prompt.
	Compacted bool
	// StopReason is the format's own word for why the answer ended.
	StopReason string
	// ErrorType and ErrorMessage are set when the answer is, or ends in, an error.
	ErrorType, ErrorMessage string
	// Done tells that the answer came to its proper end: the terminal event of
	// a stream (in Gemini, which has none, a reason why it ended), a clean end behind
	// the reason why the model stopped, or a whole JSON value. A cut stream is never
	// done, nor is one that ends in an error; an error in a JSON body is whole, see
	// Failed.
	Done bool
	// Timing is how long it took. Decoders leave it empty; whoever feeds them
	// holds the clock.
	Timing Timing
}

// Held returns the usage of the prompt from which the next request goes on.
func (t *Turn) Held() Usage {
	if t.Final.Reported {
		return t.Final
	}
	return t.Usage
}

// Failed reports whether the answer is an error.
func (t *Turn) Failed() bool { return t.ErrorType != "" || t.ErrorMessage != "" }
