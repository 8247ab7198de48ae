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

// past is what later blocks say about a file, gathered from the end of the
// conversation to its beginning.
type past struct {
	touched    uint16 // the turn of the last call about it
	task       uint16 // and its task
	reads      int    // later reads of it
	whole      int    // those of them that read it from beginning to end
	edits      int    // later edits of it
	relied     uint16 // the turn of the last read that relies on what stands before it
	reliedTask uint16 // and its task
}

// group is a kind of blocks whose need has a model of its own.
type group uint8

const (
	groupResults group = iota // of commands, searches and all else
	groupReads                // results that show a file
	groupInputs               // what calls have written into files
	groups
)

// The terms of the linear model, each a number that is known of a block when
// it might be folded.
const (
	termOne      = iota // the constant
	termAge             // log2 of the turns since the block
	termIdle            // log2 of the turns since the last call about its file
	termUnused          // log2 of the answers in a row that did not refer to it
	termEdited          // the file was edited since
	termReread          // the file was read since
	termWhole           // the whole file was read since
	termTasks           // tasks begun since the block, up to two
	termAway            // no call of the running task was about the file
	termSearch          // it is the result of a search
	termSize            // log2 of its size in kilobytes
	termAge2            // the square of termAge: the need of old blocks falls faster
	termHot             // log2 of the edits of the file so far, before the block and since
	termLoop            // the agent is in the middle of a run of tool calls
	termLoopSize        // termSize, there
	termLoopAge         // termAge, there
	terms
)

// features are the terms of one block.
type features [terms]float64

// appraisal is what is known of a block's need.
type appraisal struct {
	group group
	x     features
}

// need is the chance that the agent will want to quote the block once more.
func (a *appraisal) need() float64 {
	z := 0.0
	for i, w := range needWeights[a.group] {
		z += w * a.x[i]
	}
	return 1 / (1 + math.Exp(-z))
}

// appraisals gathers the features of the calls and results among the blocks that
// something would be cut from; nil stands for all.
func (f *frame) appraisals(r *room, cuts []cut) []appraisal {
	out := zeroed(r.known, len(f.blocks))
	r.known = out
	if len(f.blocks) == 0 {
		return out
	}
	files, edits := r.files, r.edits
	for i := range f.states {
		if s := &f.states[i]; s.Path != 0 && f.blocks[i].Kind == wire.KindToolUse && (s.Class == sessioncache.ClassEdit || s.Class == sessioncache.ClassWrite) {
			edits[s.Path]++
		}
	}
	for i := len(f.blocks) - 1; i >= 0; i-- {
		s, b := &f.states[i], &f.blocks[i]
		if s.Class == sessioncache.ClassNone {
			continue
		}
		h, input := files[s.Path], b.Kind == wire.KindToolUse
		if cuts == nil || cuts[i] != (cut{}) {
			f.characterise(&out[i], i, &h, edits[s.Path])
		}
		if s.Path == 0 {
			continue
		}
		h.touched, h.task = max(s.Turn, h.touched), max(s.Task, h.task)
		switch {
		case input && (s.Class == sessioncache.ClassEdit || s.Class == sessioncache.ClassWrite):
			h.edits++
			if s.Class == sessioncache.ClassWrite {
				h.whole++
			}
		case !input && s.Class == sessioncache.ClassRead && !b.Has(wire.FlagError) && s.Relies:
			if h.relied == 0 {
				h.relied, h.reliedTask = s.Turn, s.Task
			}
		case !input && s.Class == sessioncache.ClassRead && !b.Has(wire.FlagError) && !f.pointer(i):
			h.reads++
			if s.Whole {
				h.whole++
			}
		}
		files[s.Path] = h
	}
	return out
}

// characterise fills in what is known of one block, given what later blocks say about
// its file and how often that was edited.
func (f *frame) characterise(a *appraisal, i int, h *past, edits int) {
	s, b := &f.states[i], &f.blocks[i]
	last := &f.states[len(f.states)-1]
	switch {
	case b.Kind == wire.KindToolUse:
		a.group = groupInputs
	case s.Class == sessioncache.ClassRead:
		a.group = groupReads
	}
	turn, begun := max(s.Turn, h.relied), max(s.Task, h.reliedTask)
	a.x = features{
		termOne: 1, termAge: log2(int(last.Turn - turn)), termUnused: log2(min(int(s.Unused), int(last.Turn-s.Turn))),
		termTasks: float64(min(last.Task-begun, 2)), termSize: math.Log2(1 + float64(b.Body.Len())/1000),
	}
	touched, task := s.Turn, s.Task
	if s.Path != 0 {
		touched, task = max(touched, h.touched), max(task, h.task)
		a.x[termHot] = log2(edits)
		a.x[termEdited], a.x[termReread], a.x[termWhole] = yes(h.edits > 0), yes(h.reads > 0), yes(h.whole > 0)
	}
	a.x[termIdle], a.x[termAway], a.x[termSearch] = log2(int(last.Turn-touched)), yes(task < last.Task), yes(s.Class == sessioncache.ClassSearch)
	a.x[termAge2] = a.x[termAge] * a.x[termAge]
	if f.loop {
		a.x[termLoop], a.x[termLoopSize], a.x[termLoopAge] = 1, a.x[termSize], a.x[termAge]
	}
}

// smallLogs are the logarithms of the numbers that nearly all terms are made of.
var smallLogs = func() (table [512]float64) {
	for n := range table {
		table[n] = math.Log2(1 + float64(n))
	}
	return table
}()

func log2(n int) float64 {
	if n >= 0 && n < len(smallLogs) {
		return smallLogs[n]
	}
	return math.Log2(1 + float64(n))
}

func yes(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
