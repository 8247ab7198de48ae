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
	// Mode is on or off. Default: on, because admission costs nothing with any upstream.
	Mode stage.Mode `json:"mode,omitempty"`
	// PassingTests replaces consecutive passing tests by their count. Default: true.
	PassingTests *bool `json:"passing_tests,omitempty"`
	// Progress replaces consecutive progress lines of package managers, compilers and downloads by
	// their count. Default: true.
	Progress *bool `json:"progress,omitempty"`
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
	yes := true
	a.Mode = cmp.Or(a.Mode, stage.On)
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
