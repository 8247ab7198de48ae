// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Script is the sequence of the model's answers. A request's step depends only on its number of
// assistant messages. So a retry, a resumed conversation and a second client get the same answer,
// unless InOrder is set.
type Script struct {
	// InOrder gives each request with tools the step after the last one that was answered properly.
	// It suits one client that shortens its conversation, or continues after the received part of a
	// cut response.
	InOrder bool

	steps []*Step

	mu   sync.Mutex
	next int // step of the next request, if InOrder
}

// Step is one answer of a script.
type Step struct {
	// Thinking, Text and Calls are the content, in this order. Empty ones are left out.
	Thinking string `json:"thinking,omitempty"`
	// Text: see Thinking.
	Text string `json:"text,omitempty"`
	// Calls are tool calls, several for parallel ones.
	Calls []ScriptCall `json:"calls,omitempty"`
	// StopReason overrides the reason for the end of the answer.
	StopReason string `json:"stop_reason,omitempty"`
	// Status replaces the content by an error of this HTTP status, with the type Error and the text Message.
	Status int `json:"status,omitempty"`
	// Error: see Status. Default: the API's type for the status.
	Error string `json:"error,omitempty"`
	// Message: see Status.
	Message string `json:"message,omitempty"`
	// Truncate breaks the connection after that many events of the stream, or in the middle of a
	// response without a stream.
	Truncate int `json:"truncate,omitempty"`
	// Clean ends a truncated stream without an error: only events are missing.
	Clean bool `json:"clean,omitempty"`
	// Hang sends nothing until the client has left.
	Hang bool `json:"hang,omitempty"`
	// Times is the number of times that Status, Truncate or Hang apply before the step answers
	// properly; -1 is always. All clients count together. Default: 1.
	Times *int `json:"times,omitempty"`
	// Delay is the time before the first byte, such as "200ms" or "2s".
	Delay Duration `json:"delay,omitempty"`

	failed atomic.Int64
}

// ScriptCall is one tool call of a step.
type ScriptCall struct {
	// Name is the tool's name.
	Name string `json:"name"`
	// Input is the JSON object of the arguments, or a JSON string with the free text for a custom
	// tool of the Responses API.
	Input json.RawMessage `json:"input"`
}

// Duration is a time.Duration with the JSON form "200ms".
type Duration time.Duration

// UnmarshalJSON parses a string in the syntax of time.ParseDuration.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("duration: %w", err)
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("duration: %w", err)
	}
	*d = Duration(v)
	return nil
}

// ReadScript reads a script from a file with a JSON array of steps.
func ReadScript(path string) (*Script, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("script: %w", err)
	}
	s, err := ParseScript(b)
	if err != nil {
		return nil, fmt.Errorf("script %s: %w", path, err)
	}
	return s, nil
}

// ParseScript parses a JSON array of steps. It refuses unknown members, calls without a name, and
// inputs other than objects and strings.
func ParseScript(b []byte) (*Script, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	s := &Script{}
	if err := d.Decode(&s.steps); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, errors.New("something follows the array of steps")
	}
	for i, step := range s.steps {
		if err := step.validate(); err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
	}
	return s, nil
}

func (s *Step) validate() error {
	if s == nil {
		return errors.New("is null")
	}
	if s.Status != 0 && (s.Status < 400 || s.Status > 599) {
		return fmt.Errorf("status must be between 400 and 599, got %d", s.Status)
	}
	if s.Truncate < 0 {
		return fmt.Errorf("truncate: %d is negative", s.Truncate)
	}
	if s.Clean && s.Truncate == 0 {
		return errors.New("clean: nothing is truncated")
	}
	for i := range s.Calls {
		c := &s.Calls[i]
		if c.Name == "" {
			return fmt.Errorf("call %d: no name", i)
		}
		if len(c.Input) == 0 {
			c.Input = json.RawMessage("{}")
		}
		if c.Input[0] != '{' && c.Input[0] != '"' {
			return fmt.Errorf("call %d: input is neither an object nor a text", i)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, c.Input); err != nil {
			return fmt.Errorf("call %d: input: %w", i, err)
		}
		c.Input = compact.Bytes()
	}
	return nil
}

// answer returns the answer to a request, nil if the request offers no tools or the script is over.
func (s *Script) answer(v *wire.View) *Answer {
	if s == nil || !v.OffersTools() {
		return nil
	}
	if s.InOrder {
		return s.take()
	}
	at := 0
	for i := range v.Messages {
		if v.Messages[i].Role == wire.RoleAssistant && (i == 0 || v.Messages[i-1].Role != wire.RoleAssistant) {
			at++
		}
	}
	if at >= len(s.steps) {
		return nil
	}
	return s.steps[at].answer(at)
}

func (s *Script) take() *Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next >= len(s.steps) {
		return nil
	}
	a := s.steps[s.next].answer(s.next)
	// A client sends the request again after a failure, a cut or a silence.
	if a.Failure == nil && a.Truncate == 0 && !a.Hang {
		s.next++
	}
	return a
}

func (s *Step) answer(at int) *Answer {
	a := &Answer{StopReason: s.StopReason, Delay: time.Duration(s.Delay)}
	if s.misbehaves() {
		if s.Status != 0 {
			a.Failure = &Failure{Status: s.Status, Type: s.Error, Message: s.Message}
			return a
		}
		a.Truncate, a.Clean, a.Hang = s.Truncate, s.Clean, s.Hang
	}
	if s.Thinking != "" {
		a.Blocks = append(a.Blocks, Block{Type: Thinking, Text: s.Thinking, Signature: Sign(s.Thinking)})
	}
	if s.Text != "" {
		a.Blocks = append(a.Blocks, Block{Type: Text, Text: s.Text})
	}
	for i, c := range s.Calls {
		a.Blocks = append(a.Blocks, Block{
			Type: ToolUse, ID: fmt.Sprintf("toolu_sim%04d%02d", at, i), Name: c.Name,
			Input: c.Input,
		})
	}
	if len(a.Blocks) == 0 {
		a.Blocks = []Block{{Type: Text, Text: "Done."}}
	}
	return a
}

// misbehaves reports whether the step fails, is cut or hangs this time, and counts the attempt.
func (s *Step) misbehaves() bool {
	if s.Status == 0 && s.Truncate == 0 && !s.Hang {
		return false
	}
	times := int64(1)
	if s.Times != nil {
		times = int64(*s.Times)
	}
	return times < 0 || s.failed.Add(1) <= times
}
