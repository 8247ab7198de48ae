// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"slices"

	"github.com/tidwall/gjson"
)

// Management is the client's request to the provider to shorten a long history. The client keeps
// sending all of it.
type Management struct {
	// Results selects tool results for clearing, nil for none.
	Results *Clearing
	// Thinking is the number of last tasks that keep their thinking while earlier thinking is
	// cleared; 0 keeps all thinking.
	Thinking int
	// Compacts reports whether the provider shall summarize the history.
	Compacts bool
}

// Clearing configures the clearing of tool results: all but the last ones, once the prompt exceeds
// a limit.
type Clearing struct {
	// Tokens and Calls are the limits that the prompt must exceed, in tokens and in calls with a
	// result; 0 for no limit.
	Tokens, Calls int64
	// Keep is the number of last calls that keep their results.
	Keep int
	// AtLeast is the minimum number of tokens that clearing must save.
	AtLeast int64
	// Exclude lists the tools that keep their results.
	Exclude []string
	// Inputs clears the inputs of the calls as well; InputsOf does so for the listed tools.
	Inputs   bool
	InputsOf []string
}

// Excludes reports whether a tool keeps its results.
func (c *Clearing) Excludes(tool string) bool { return slices.Contains(c.Exclude, tool) }

// ClearsInput reports whether a tool's inputs are cleared with its results.
func (c *Clearing) ClearsInput(tool string) bool {
	return c.Inputs || slices.Contains(c.InputsOf, tool)
}

// Cuts reports whether results are cleared or the history is summarized. Both leave the prompt's
// content to the client; clearing thinking does not count.
func (m *Management) Cuts() bool { return m.Results != nil || m.Compacts }

// Management returns the client's request to shorten a long history.
func (v *View) Management() (m Management) {
	if c, ok := v.Format.Codec().(Manager); ok {
		if s := v.Bytes(v.Conversation.ContextManagement); len(s) > 0 {
			m = c.Management(gjson.ParseBytes(s))
		}
		if s := v.Bytes(v.Conversation.Compaction); len(s) > 0 && string(s) != "null" {
			m.Compacts = true
		}
	}
	return m
}
