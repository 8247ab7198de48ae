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

// Script is what the simulated model does, step by step. Which step a request
// gets depends on the number of assistant messages in it alone, so a retry, a
// resumed conversation and a second client get what the first one got; unless
// InOrder is set.
type Script struct {
	// InOrder makes each request that offers tools get the step behind the one
	// that was last answered properly. It is for one client that shortens its
	// conversation, or goes on behind the part it has seen of a cut answer.
	InOrder bool

	steps []*Step

	mu   sync.Mutex
	next int // the step of the next request, if InOrder
}

// Step is one answer of a script.
type Step struct {
	// Thinking, Text and Calls are the content, in this order; empty ones are
	// left out.
	Thinking string `json:"thinking,omitempty"`
	// Text: see Thinking.
	Text string `json:"text,omitempty"`
	// Calls are tool calls, several for parallel ones.
	Calls []ScriptCall `json:"calls,omitempty"`
	// StopReason overrides the reason why the answer ends.
	StopReason string `json:"stop_reason,omitempty"`
	// Status makes the step an error of this HTTP status, with the type Error
	// and the text Message, instead of its content.
	Status int `json:"status,omitempty"`
	// Error: see Status. Default: what the API uses with the status.
	Error string `json:"error,omitempty"`
	// Message: see Status.
	Message string `json:"message,omitempty"`
	// Truncate breaks the connection after that many events of the stream, or
	// in the middle of an answer that is not streamed.
	Truncate int `json:"truncate,omitempty"`
	// Clean has a truncated stream end as if it were whole: the connection stays,
	// and only the events are missing.
	Clean bool `json:"clean,omitempty"`
	// Hang makes the step say nothing until its client is gone.
	Hang bool `json:"hang,omitempty"`
	// Times is how often Status, Truncate or Hang apply before the step answers
	// properly; -1 is always. All clients count together. Default: 1.
	Times *int `json:"times,omitempty"`
	// Delay passes before the first byte, as "200ms" or "2s".
	Delay Duration `json:"delay,omitempty"`

	failed atomic.Int64
}

// ScriptCall is one tool call of a step.
type ScriptCall struct {
	// Name is the tool's name.
	Name string `json:"name"`
	// Input is the JSON object of its arguments, or the JSON string of the free
	// text that a custom tool of the Responses API takes.
	Input json.RawMessage `json:"input"`
}

// Duration is a time.Duration that is written as a string in JSON: "200ms".
type Duration time.Duration

// UnmarshalJSON reads a string that time.ParseDuration understands.
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

// ReadScript reads a script: a file that holds a JSON array of steps.
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

// ParseScript reads a JSON array of steps. Unknown members, calls without a
// name and inputs that are neither objects nor texts are refused.
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
		return fmt.Errorf("status: %d is not between 400 and 599", s.Status)
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

// answer returns the answer to a request, or nil if the script has none for
// it: the request offers no tools or the script is over.
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

// take returns the next step's answer. A step that fails, is cut or hangs stays
// the next one.
func (s *Script) take() *Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next >= len(s.steps) {
		return nil
	}
	a := s.steps[s.next].answer(s.next)
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
		a.Blocks = append(a.Blocks, Block{Type: ToolUse, ID: fmt.Sprintf("toolu_sim%04d%02d", at, i), Name: c.Name, Input: c.Input})
	}
	if len(a.Blocks) == 0 {
		a.Blocks = []Block{{Type: Text, Text: "Done."}}
	}
	return a
}

// misbehaves reports whether the step fails, is cut or hangs this time, and counts it.
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
