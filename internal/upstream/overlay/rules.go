// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import "fmt"

// Mode turns the overlay on or off.
type Mode string

// The modes.
const (
	// Auto does what the upstream's preset says: on for boxes, off for hosted
	// APIs, whose caches work in other ways.
	Auto Mode = "auto"
	// On follows the rules of the preset, or of a box if the preset has none.
	On Mode = "on"
	// Off leaves requests alone.
	Off Mode = "off"
)

// Rules are the options of the overlay. A rule that is not set follows the
// preset, or under On the defaults for a box.
type Rules struct {
	// Mode is auto, on or off. Default: auto.
	Mode Mode `json:"mode,omitempty"`
	// Group names the people who share their prefixes, with placeholders: those of
	// one group get equal tools in one order. Default: each credential is a
	// group of its own.
	Group string `json:"group,omitempty"`
	// BillingLine drops Claude Code's x-anthropic-billing-header, which differs from
	// conversation to conversation and changes with each compaction. Default on
	// boxes: true.
	BillingLine *bool `json:"billing_line,omitempty"`
	// SystemMessages folds system messages in the middle into the tool result
	// or the user's text before them, where every chat template shows them.
	// Default on boxes: true.
	SystemMessages *bool `json:"system_messages,omitempty"`
	// TokenCounters drops reminders that say nothing but how many tokens are
	// left. Default on boxes: true.
	TokenCounters *bool `json:"token_counters,omitempty"`
	// ToolOrder keeps tools in the order in which they were first seen, new ones
	// behind them; those that vanish, and the first description of each, stay. The
	// order of a schema's members does not count. Default on boxes: true.
	ToolOrder *bool `json:"tool_order,omitempty"`
	// LateTools describes tools that come later in a note near the end instead
	// of appending them, so that nothing is read again. The upstream must take
	// calls of tools that it was not told of: llama.cpp, for one, does not.
	// Default: true with mlx_openai_server, else false.
	LateTools *bool `json:"late_tools,omitempty"`
	// Pins keeps dates, times, paths, UUIDs, hashes, Git status and the model's name as
	// they first stood in the system text and in the messages that a person begins
	// with, and tells changes of them once, in a note. Default on boxes: true.
	Pins *bool `json:"pins,omitempty"`
	// Forms writes a content of one text always as a string. Default on boxes: true.
	Forms *bool `json:"forms,omitempty"`
	// ExactAnswers puts the arguments of calls and texts back as the model wrote
	// them, where a client has written the same otherwise. Default on boxes: true.
	ExactAnswers *bool `json:"exact_answers,omitempty"`
	// Thinking puts thinking back that a client of openai_chat has dropped.
	// Default on boxes: true.
	Thinking *bool `json:"thinking,omitempty"`
}

// Switches are rules that have been decided upon.
type Switches struct {
	BillingLine, SystemMessages, TokenCounters, ToolOrder, LateTools, Pins, Forms, ExactAnswers, Thinking bool
}

// Box are the rules for a box that runs a model.
var Box = Switches{
	BillingLine: true, SystemMessages: true, TokenCounters: true, ToolOrder: true, Pins: true, Forms: true, ExactAnswers: true, Thinking: true,
}

// Unlisted are the rules for a box that takes calls of tools that it was not told of
// as well as others.
var Unlisted = func() Switches {
	s := Box
	s.LateTools = true
	return s
}()

// Validate reports a mode that there is not.
func (r *Rules) Validate() error {
	if r == nil {
		return nil
	}
	switch r.Mode {
	case "", Auto, On, Off:
		return nil
	}
	return fmt.Errorf("mode: %q is none of %s, %s, %s", r.Mode, Auto, On, Off)
}

// Over returns what the rules say where the preset says s.
func (r *Rules) Over(s Switches) Switches {
	if r == nil {
		return s
	}
	switch r.Mode {
	case Off:
		return Switches{}
	case On:
		if s == (Switches{}) {
			s = Box
		}
	}
	for _, f := range []struct {
		to   *bool
		says *bool
	}{
		{&s.BillingLine, r.BillingLine},
		{&s.SystemMessages, r.SystemMessages},
		{&s.TokenCounters, r.TokenCounters},
		{&s.ToolOrder, r.ToolOrder},
		{&s.LateTools, r.LateTools},
		{&s.Pins, r.Pins},
		{&s.Forms, r.Forms},
		{&s.ExactAnswers, r.ExactAnswers},
		{&s.Thinking, r.Thinking},
	} {
		if f.says != nil {
			*f.to = *f.says
		}
	}
	return s
}
