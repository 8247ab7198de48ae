// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import "strings"

// step is one answer of the simulated model. The step of a request depends on its number of
// answers, or on the order of requests if the simulator is configured so.
type step struct {
	Thinking string     `json:"thinking,omitempty"`
	Text     string     `json:"text,omitempty"`
	Calls    []toolCall `json:"calls,omitempty"`
	// StopReason is the reason for the end in the upstream's words. Default: by its calls.
	StopReason string `json:"stop_reason,omitempty"`
	// Status and Message fail the first request for the step. Truncate cuts its response after so
	// many events.
	Status   int    `json:"status,omitempty"`
	Message  string `json:"message,omitempty"`
	Truncate int    `json:"truncate,omitempty"`
	// Clean ends the cut response without an error, as if it were whole.
	Clean bool `json:"clean,omitempty"`
	// Hang sends nothing the first time, until the client has left.
	Hang bool `json:"hang,omitempty"`
	// Times is the number of such failures, -1 for always. Default: 1.
	Times int `json:"times,omitempty"`
}

// toolCall is a call of a client's tool.
type toolCall struct {
	Name string `json:"name"`
	// Input is an object, or a text for tools with free text.
	Input any `json:"input"`
}

// calls returns a step with a filler sentence and tool calls.
func calls(c ...toolCall) step { return step{Text: "Let me look at the next thing.", Calls: c} }

// think returns the step with thinking before it.
func (s step) think() step {
	s.Thinking = strings.Repeat("The next file names the function that the test calls, so it comes before the answer. ", 5)
	return s
}

// fails returns the step after an error of that status.
func (s step) fails(status int, message string) step {
	s.Status, s.Message = status, message
	return s
}

// cut returns the step after a response that breaks off after so many events.
func (s step) cut(events int) step {
	s.Truncate = events
	return s
}

// ends returns the step after a response that ends cleanly after so many events, without the
// others.
func (s step) ends(events int) step {
	s.Truncate, s.Clean = events, true
	return s
}

// failing returns the step as a permanent error.
func (s step) failing(status int) step {
	s.Status, s.Times = status, -1
	return s
}
