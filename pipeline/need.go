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
	"math"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// history is what later blocks say about a file, gathered from the end of the
// conversation to its beginning.
type history struct {
	touched uint16 // the turn of the last call about it
	reads   int    // later reads of it
	edits   int    // later edits of it
}

// features are what is known of a block at the moment when it might be folded,
// and what the chance that its text is needed again depends on.
type features struct {
	class  sessioncache.Class
	input  bool    // it is a call, not a result
	idle   float64 // turns since the last call about the same file, or since itself
	edited bool    // the file was edited since
	reread bool    // the file was read since
	tasks  float64 // tasks begun since
}

// need estimates the chance that an agent will want to quote a block's text
// once more: a logistic model over a few features, fitted on recorded
// conversations.
func (x *features) need() float64 {
	w := &needWeights[x.class]
	if x.input {
		w = &needInputs
	}
	z := w.base + w.idle*math.Log2(1+x.idle)
	if x.edited {
		z += w.edited
	}
	if x.reread {
		z += w.reread
	}
	z += w.tasks * math.Min(x.tasks, 2)
	return 1 / (1 + math.Exp(-z))
}

// weights are the coefficients of one class of blocks.
type weights struct{ base, idle, edited, reread, tasks float64 }

var needWeights = [...]weights{
	sessioncache.ClassNone:    {base: -3, idle: -0.8, tasks: -1},
	sessioncache.ClassOther:   {base: -3.5, idle: -0.8, tasks: -1},
	sessioncache.ClassRead:    {base: 1.2, idle: -0.75, edited: -1.4, reread: -1.2, tasks: -1.2},
	sessioncache.ClassEdit:    {base: -4, idle: -0.5, tasks: -1},
	sessioncache.ClassWrite:   {base: -4, idle: -0.5, tasks: -1},
	sessioncache.ClassSearch:  {base: -3.3, idle: -0.9, tasks: -1},
	sessioncache.ClassCommand: {base: -2.8, idle: -0.7, tasks: -1},
}

var needInputs = weights{base: 0.2, idle: -0.65, reread: -0.8, tasks: -0.8}

// needs estimates the need for every block.
func (f *frame) needs() []float64 {
	out := make([]float64, len(f.blocks))
	if len(f.blocks) == 0 {
		return out
	}
	now, task := f.states[len(f.states)-1].Turn, f.states[len(f.states)-1].Task
	files := make(map[uint64]history)
	for i := len(f.blocks) - 1; i >= 0; i-- {
		s := &f.states[i]
		if s.Class == sessioncache.ClassNone {
			continue
		}
		h, seen := files[s.Path]
		x := features{class: s.Class, input: f.blocks[i].Kind == wire.KindToolUse, tasks: float64(task - s.Task)}
		last := s.Turn
		if s.Path != 0 && seen {
			last = max(last, h.touched)
			x.edited, x.reread = h.edits > 0, h.reads > 0
		}
		if int(s.Unused) < int(now-s.Turn) { // an answer referred to it since
			last = max(last, now-s.Unused)
		}
		x.idle = float64(now - last)
		out[i] = x.need()
		if s.Path == 0 {
			continue
		}
		h.touched = max(h.touched, s.Turn)
		switch {
		case x.input && (s.Class == sessioncache.ClassEdit || s.Class == sessioncache.ClassWrite):
			h.edits++
		case !x.input && s.Class == sessioncache.ClassRead && f.blocks[i].Flags&wire.FlagError == 0:
			h.reads++
		}
		files[s.Path] = h
	}
	return out
}
