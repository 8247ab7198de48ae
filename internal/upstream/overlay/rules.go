// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import "fmt"

// Mode turns the overlay on or off.
type Mode string

// The modes.
const (
	// Auto follows the upstream's preset: on for local servers, off for hosted APIs, which have
	// other kinds of caches.
	Auto Mode = "auto"
	// On follows the rules of the preset, or of a local server if the preset has none.
	On Mode = "on"
	// Off leaves requests unmodified.
	Off Mode = "off"
)

// Rules are the options of the overlay. An unset rule follows the preset, or with On the defaults
// for a local server.
type Rules struct {
	// Mode is auto, on or off. Default: auto.
	Mode Mode `json:"mode,omitempty"`
	// Group is the name of a group of users with common prefixes, with placeholders: requests of one
	// group get equal tools in one order. Default: each credential is a group of its own.
	Group string `json:"group,omitempty"`
	// BillingLine drops Claude Code's x-anthropic-billing-header, which differs between
	// conversations and changes with each compaction. Default on local servers: true.
	BillingLine *bool `json:"billing_line,omitempty"`
	// SystemMessages folds system messages in the middle into the tool result or the user's text
	// before them, where every chat template renders them. Default on local servers: true.
	SystemMessages *bool `json:"system_messages,omitempty"`
	// TokenCounters drops reminders that only report how many tokens are left. Default on local
	// servers: true.
	TokenCounters *bool `json:"token_counters,omitempty"`
	// ToolOrder keeps tools in the order of their first appearance, followed by new ones. Vanished
	// tools and the first description of each tool stay. The order of a schema's members is
	// ignored. Default on local servers: true.
	ToolOrder *bool `json:"tool_order,omitempty"`
	// LateTools describes later tools in a note near the end instead of appending them to the list,
	// so that nothing is read again. The upstream must accept calls of unlisted tools, which
	// llama.cpp, for example, does not. Default: true with mlx_openai_server, else false.
	LateTools *bool `json:"late_tools,omitempty"`
	// Pins keeps the first values of dates, times, paths, UUIDs, hashes, Git status and the model's
	// name in the system text and in the opening user messages. It reports each change once, in a
	// note. Default on local servers: true.
	Pins *bool `json:"pins,omitempty"`
	// Forms writes a content of one text always as a string. Default on local servers: true.
	Forms *bool `json:"forms,omitempty"`
	// ExactAnswers restores the model's own bytes of calls' arguments and texts if the client has
	// rewritten them. Default on local servers: true.
	ExactAnswers *bool `json:"exact_answers,omitempty"`
	// Thinking restores thinking that a client of openai_chat has dropped. Default on local
	// servers: true.
	Thinking *bool `json:"thinking,omitempty"`
}

// Switches are the rules in force.
type Switches struct {
	BillingLine, SystemMessages, TokenCounters, ToolOrder, LateTools, Pins, Forms, ExactAnswers, Thinking bool
}

// LocalServer has the rules for a local server.
var LocalServer = Switches{
	BillingLine: true, SystemMessages: true, TokenCounters: true, ToolOrder: true, Pins: true, Forms: true,
	ExactAnswers: true, Thinking: true,
}

// Unlisted has the rules for a local server that accepts calls of unlisted tools.
var Unlisted = func() Switches {
	s := LocalServer
	s.LateTools = true
	return s
}()

// Validate returns an error for an unknown mode.
func (r *Rules) Validate() error {
	if r == nil {
		return nil
	}
	switch r.Mode {
	case "", Auto, On, Off:
		return nil
	}
	return fmt.Errorf("mode must be one of %s, %s, %s, got %q", Auto, On, Off, r.Mode)
}

// Over returns the rules in force for a preset with the defaults s.
func (r *Rules) Over(s Switches) Switches {
	if r == nil {
		return s
	}
	switch r.Mode {
	case Off:
		return Switches{}
	case On:
		if s == (Switches{}) {
			s = LocalServer
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
