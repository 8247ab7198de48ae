// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
)

// run is the open run of tool calls in a request.
type run struct {
	// answer is the first block of the last response.
	answer int
	// loop reports whether the request continues a run.
	loop bool
	// task is the first block of the run, or the number of blocks.
	task int
}

// findRun determines whether the request continues a run of tool calls. The run begins after the
// last human prompt.
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
