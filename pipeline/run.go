// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package pipeline

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/history"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
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
		case history.AnswersTool(v, m):
			r.loop = true
		case m.Role == wire.RoleUser:
			if r.loop {
				return r
			}
		}
	}
	return r
}
