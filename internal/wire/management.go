// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"slices"

	"github.com/tidwall/gjson"
)

// Management is what a client asks its provider to do about a history that has grown
// long. The client goes on to send all of it.
type Management struct {
	// Results says which results of tools are to be cleared, nil for none.
	Results *Clearing
	// Thinking is the number of tasks, from the last on, whose thinking stays where that
	// of earlier ones is to be cleared; 0 where all of it stays.
	Thinking int
	// Compacts reports whether the history is to be summed up.
	Compacts bool
}

// Clearing is how results of tools are to be cleared: all but the last ones, as soon as
// the prompt is so long.
type Clearing struct {
	// Tokens and Calls are what the prompt has to exceed, the one in its length, the
	// other in calls whose results are there; 0 for what does not count.
	Tokens, Calls int64
	// Keep is the number of calls, from the last on, whose results stay.
	Keep int
	// AtLeast is the number of tokens below which clearing is not worth it.
	AtLeast int64
	// Exclude are the tools whose results stay.
	Exclude []string
	// Inputs reports whether what the calls were given goes as well, or that of the
	// tools InputsOf.
	Inputs   bool
	InputsOf []string
}

// Excludes reports whether the results of a tool stay.
func (c *Clearing) Excludes(tool string) bool { return slices.Contains(c.Exclude, tool) }

// ClearsInput reports whether what a tool was given goes with its result.
func (c *Clearing) ClearsInput(tool string) bool {
	return c.Inputs || slices.Contains(c.InputsOf, tool)
}

// Cuts reports whether results are to be cleared, or the history is to be summed up:
// whoever asks for that decides what the model reads. Clearing thinking is no such cut.
func (m *Management) Cuts() bool { return m.Results != nil || m.Compacts }

// Management returns what the client asks its provider to do about a long history.
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
