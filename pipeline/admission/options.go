// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
)

// Options configures the stage admission: the shortening of a tool's call and result before they
// are first sent. Each rule can be switched off; docs/concepts/admission.md shows the effect and
// the savings of each.
type Options struct {
	// Mode is auto, on or off. Auto and on are the same, because admission costs nothing with any
	// upstream. Default: auto.
	Mode stage.Mode `json:"mode,omitempty"`
	// ANSI removes colours and other terminal escapes. Default: true.
	ANSI *bool `json:"ansi,omitempty"`
	// CarriageReturns keeps only the last state of a redrawn line, such as a progress bar. Default:
	// true.
	CarriageReturns *bool `json:"carriage_returns,omitempty"`
	// Blobs cuts runs of at least 1,000 characters of base64 or hexadecimal in command output.
	// Default: true.
	Blobs *bool `json:"blobs,omitempty"`
	// LongLines cuts single lines of more than 8,000 characters in command output, and of more than
	// 1,000 in search results. Default: true.
	LongLines *bool `json:"long_lines,omitempty"`
	// Timestamps keeps the date of log lines only where it changes. Default: true.
	Timestamps *bool `json:"timestamps,omitempty"`
	// Repeats replaces equal consecutive lines by one and a count, and shortens runs of log lines
	// that differ only in numbers. Default: true.
	Repeats *bool `json:"repeats,omitempty"`
	// PassingTests replaces consecutive passing tests by their count. Default: true.
	PassingTests *bool `json:"passing_tests,omitempty"`
	// Progress replaces consecutive progress lines of package managers, compilers and downloads by
	// their count. Default: true.
	Progress *bool `json:"progress,omitempty"`
	// LongOutputs cuts command output of more than 16,000 characters to its head, its tail, and the
	// lines between that look like errors. Default: false.
	LongOutputs *bool `json:"long_outputs,omitempty"`
	// LineNumbers removes the padding before the line numbers of files. Default: true.
	LineNumbers *bool `json:"line_numbers,omitempty"`
	// SearchHits writes the path once above the hits in one file instead of before each. Default:
	// true.
	SearchHits *bool `json:"search_hits,omitempty"`
	// Echoes replaces the text of a written file in a result by a note if the call contains the
	// same text. Default: true.
	Echoes *bool `json:"echoes,omitempty"`
	// Replaced removes the replaced text from the call of an edit, except its first and last line,
	// because the file does not contain it any more. It does not apply to local servers, which
	// cache their own output. Default: true.
	Replaced *bool `json:"replaced,omitempty"`
	// Rereads replaces a result by a pointer to an equal earlier one that is still in the
	// conversation. Default: true.
	Rereads *bool `json:"rereads,omitempty"`
	// Overlaps removes lines of a file read that an earlier read or write of the file already
	// shows. Default: true.
	Overlaps *bool `json:"overlaps,omitempty"`
}

// Defaults sets the defaults.
func (a *Options) Defaults() {
	yes, no := true, false
	a.Mode = cmp.Or(a.Mode, stage.Auto)
	a.LongOutputs = cmp.Or(a.LongOutputs, &no) // the only rule that may remove wanted text
	for i := range rules {
		option := rules[i].option(a)
		*option = cmp.Or(*option, &yes)
	}
	for _, option := range []**bool{&a.Replaced, &a.Rereads, &a.Overlaps} {
		*option = cmp.Or(*option, &yes)
	}
}

// enabled reports whether a switch is on, its default.
func enabled(option *bool) bool { return option == nil || *option }
