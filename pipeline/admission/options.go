// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
)

// Options configures the stage of that name: what is done to the call of
// a tool and its result when they are seen for the first time. Each rule may be switched off by
// itself; docs/concepts/admission.md shows what each of them does and saves.
type Options struct {
	// Mode is auto, on or off. Auto and on are the same: what is done here costs
	// nothing with any upstream. Default: auto.
	Mode stage.Mode `json:"mode,omitempty"`
	// ANSI removes colours and other escapes for terminals. Default: true.
	ANSI *bool `json:"ansi,omitempty"`
	// CarriageReturns keeps the last state of a line that was drawn again and
	// again, like a progress bar. Default: true.
	CarriageReturns *bool `json:"carriage_returns,omitempty"`
	// Blobs cuts runs of 1,000 and more characters of base64 or hexadecimal in
	// command output. Default: true.
	Blobs *bool `json:"blobs,omitempty"`
	// LongLines cuts single lines of more than 8,000 characters in command
	// output, of more than 1,000 in search results. Default: true.
	LongLines *bool `json:"long_lines,omitempty"`
	// Timestamps writes the date of log lines only where it changes. Default: true.
	Timestamps *bool `json:"timestamps,omitempty"`
	// Repeats counts equal lines in a row instead of repeating them, and log
	// lines that differ in numbers only. Default: true.
	Repeats *bool `json:"repeats,omitempty"`
	// PassingTests counts passing tests in a row instead of listing them.
	// Default: true.
	PassingTests *bool `json:"passing_tests,omitempty"`
	// Progress counts the lines that package managers, compilers and downloads
	// write on their way instead of listing them. Default: true.
	Progress *bool `json:"progress,omitempty"`
	// LongOutputs cuts command output of more than 16,000 characters down to its
	// head, its tail, and what looks like an error between. Default: false.
	LongOutputs *bool `json:"long_outputs,omitempty"`
	// LineNumbers removes the padding in front of the line numbers of files.
	// Default: true.
	LineNumbers *bool `json:"line_numbers,omitempty"`
	// SearchHits writes the path above the hits in one file instead of in front
	// of each. Default: true.
	SearchHits *bool `json:"search_hits,omitempty"`
	// Echoes replaces what a tool gives back of the file that it has just
	// written, if that is what the call told it to write. Default: true.
	Echoes *bool `json:"echoes,omitempty"`
	// Replaced leaves out of a call that has edited a file what it replaced, all
	// but the first and the last line: the file does not hold it any more. Local
	// engines, which have their own answers cached, get such calls whole.
	// Default: true.
	Replaced *bool `json:"replaced,omitempty"`
	// Rereads replaces a result that is equal to an earlier one, which still
	// stands in the conversation, by a pointer to it. Default: true.
	Rereads *bool `json:"rereads,omitempty"`
	// Overlaps leaves out of a file that is read the lines that an earlier read
	// of it, or a call that has written it, shows already. Default: true.
	Overlaps *bool `json:"overlaps,omitempty"`
}

// Defaults fills in the defaults.
func (a *Options) Defaults() {
	yes, no := true, false
	a.Mode = cmp.Or(a.Mode, stage.Auto)
	a.LongOutputs = cmp.Or(a.LongOutputs, &no) // the one rule that takes away what may be wanted
	for i := range rules {
		option := rules[i].option(a)
		*option = cmp.Or(*option, &yes)
	}
	for _, option := range []**bool{&a.Replaced, &a.Rereads, &a.Overlaps} {
		*option = cmp.Or(*option, &yes)
	}
}

// enabled reports whether a switch is on, which it is by default.
func enabled(option *bool) bool { return option == nil || *option }
