// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
)

// run is a run of tool calls that the model is in the middle of.
type run struct {
	// answer is the first block of the last answer.
	answer int
	// loop reports whether it is in one.
	loop bool
	// task is the first block of it, or the number of blocks.
	task int
}

// findRun finds out whether the request continues a run of tool calls, and
// where that run began: behind the last prompt of a person.
func findRun(v *wire.View) run {
	n := len(v.MessageBlocks())
	r := run{task: n}
	for i := len(v.Messages) - 1; i >= 0; i-- {
		m := &v.Messages[i]
		switch {
		case m.Role == wire.RoleAssistant:
			if r.task == n && !r.loop {
				return r // the request ends in a prompt
			}
			r.task = int(m.First) - v.System
		case content.AnswersTool(v, m):
			r.loop = true
		case m.Role == wire.RoleUser:
			if r.loop {
				return r
			}
		}
	}
	return r
}
