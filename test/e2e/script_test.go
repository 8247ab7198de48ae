// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import "strings"

// step is one answer of the simulated model; which one a request gets depends
// on how many answers it holds already, or on its place in the order of requests
// if the simulator is told so.
type step struct {
	Thinking string     `json:"thinking,omitempty"`
	Text     string     `json:"text,omitempty"`
	Calls    []toolCall `json:"calls,omitempty"`
	// StopReason is the upstream's own word for why the answer ends. Default: as
	// it is with its calls.
	StopReason string `json:"stop_reason,omitempty"`
	// Status and Message fail the first request for the step, Truncate cuts its
	// answer after so many events.
	Status   int    `json:"status,omitempty"`
	Message  string `json:"message,omitempty"`
	Truncate int    `json:"truncate,omitempty"`
	// Clean has the cut answer end as if it were whole.
	Clean bool `json:"clean,omitempty"`
	// Hang says nothing the first time, until the client has left.
	Hang bool `json:"hang,omitempty"`
	// Times is how often they do so, -1 for always. Default: 1.
	Times int `json:"times,omitempty"`
}

// toolCall is a call of a client's tool.
type toolCall struct {
	Name string `json:"name"`
	// Input is an object, or a text where the tool takes one.
	Input any `json:"input"`
}

// calls is a step that says a filler sentence and calls tools.
func calls(c ...toolCall) step { return step{Text: "Let me look at the next thing.", Calls: c} }

// think is the step with a thought before it.
func (s step) think() step {
	s.Thinking = strings.Repeat("The next file names the function that the test calls, so it comes before the answer. ", 5)
	return s
}

// fails is the step after an error of that status.
func (s step) fails(status int, message string) step {
	s.Status, s.Message = status, message
	return s
}

// cut is the step after an answer that breaks off after so many events.
func (s step) cut(events int) step {
	s.Truncate = events
	return s
}

// ends is the step after an answer that ends cleanly after so many events, the
// others missing.
func (s step) ends(events int) step {
	s.Truncate, s.Clean = events, true
	return s
}

// failing is the step that is always that error.
func (s step) failing(status int) step {
	s.Status, s.Times = status, -1
	return s
}
