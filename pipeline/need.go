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

// filePast is what later blocks say about a file, gathered from the end of the
// conversation to its beginning.
type filePast struct {
	touched uint16 // the turn of the last call about it
	reads   int    // later reads of it
	whole   int    // those of them that read it from beginning to end
	edits   int    // later edits of it
	relied  uint16 // the turn of the last read that relies on what stands before it
}

// edited is what is known of the edits of a file.
type edited struct {
	times int
	last  uint16 // the turn of the last one
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
	termOne        = iota // the constant
	termAge2              // the square of log2 of the turns since the block: the need of old blocks falls faster
	termIdle              // log2 of the turns since the last call about its file
	termIdle2             // its square
	termUnused            // log2 of the answers in a row that did not refer to it
	termSize              // log2 of its size in kilobytes
	termEdited            // the file was edited since
	termWhole             // the whole file was read or written since
	termPart              // it is a part of its file
	termSearch            // it is the result of a search
	termShell             // the call is made through a shell
	termOther             // the call neither edits nor writes a file
	termHot               // log2 of the edits of the file so far, before the block and since
	termHotIdle           // termHot times termIdle
	termEditAge           // log2 of the turns since the last edit of the file
	termRecent            // that edit was one of the last five turns
	termRereadIdle        // termIdle of files read again since
	termTestIdle          // termIdle of files of tests
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

// needScratch is memory for appraisals, to be used again.
type needScratch struct {
	known []appraisal
	files map[uint64]filePast
	edits map[uint64]edited
}

func newNeedScratch() needScratch {
	return needScratch{files: make(map[uint64]filePast), edits: make(map[uint64]edited)}
}

// mostFiles bounds the files of memory that is used again: to empty a map takes
// as long as it has ever been large.
const mostFiles = 1024

// clear empties the memory, and reports whether it should be used again.
func (r *needScratch) clear() bool {
	if len(r.files) > mostFiles || len(r.edits) > mostFiles {
		return false
	}
	clear(r.files)
	clear(r.edits)
	return true
}

// appraisals gathers the features of the calls and results among the blocks that
// are wanted; nil stands for all. They are good until the memory is used again.
func (r *needScratch) appraisals(h *History, wanted func(i int) bool) []appraisal {
	out := zeroed(r.known, len(h.Blocks))
	r.known = out
	if len(h.Blocks) == 0 {
		return out
	}
	files, edits := r.files, r.edits
	for i := range h.States {
		if s := &h.States[i]; s.Path != 0 && h.Blocks[i].Kind == wire.KindToolUse && (s.Class == sessioncache.ClassEdit || s.Class == sessioncache.ClassWrite) {
			edits[s.Path] = edited{edits[s.Path].times + 1, s.Turn}
		}
	}
	for i := len(h.Blocks) - 1; i >= 0; i-- {
		s, b := &h.States[i], &h.Blocks[i]
		if s.Class == sessioncache.ClassNone {
			continue
		}
		file, input := files[s.Path], b.Kind == wire.KindToolUse
		if wanted == nil || wanted(i) {
			out[i].characterise(h, i, &file, edits[s.Path])
		}
		if s.Path == 0 {
			continue
		}
		file.touched = max(s.Turn, file.touched)
		switch {
		case input && (s.Class == sessioncache.ClassEdit || s.Class == sessioncache.ClassWrite):
			file.edits++
			if s.Class == sessioncache.ClassWrite {
				file.whole++
			}
		case !input && s.Class == sessioncache.ClassRead && !b.Has(wire.FlagError) && s.Relies:
			if file.relied == 0 {
				file.relied = s.Turn
			}
		case !input && s.Class == sessioncache.ClassRead && !b.Has(wire.FlagError) && !pointer(s.Edit):
			file.reads++
			if s.Whole {
				file.whole++
			}
		}
		files[s.Path] = file
	}
	return out
}

// characterise fills in what is known of one block, given what later blocks say about
// its file and how it was edited.
func (a *appraisal) characterise(h *History, i int, file *filePast, e edited) {
	s, b := &h.States[i], &h.Blocks[i]
	now := h.States[len(h.States)-1].Turn
	switch {
	case b.Kind == wire.KindToolUse:
		a.group = groupInputs
	case s.Class == sessioncache.ClassRead:
		a.group = groupReads
	}
	age, idle := log2(int(now-max(s.Turn, file.relied))), log2(int(now-s.Turn))
	a.x = features{
		termOne: 1, termAge2: age * age, termUnused: log2(min(int(s.Unused), int(now-s.Turn))), termSize: math.Log2(1 + float64(b.Body.Len())/1000),
		termPart: yes(!s.Whole), termSearch: yes(s.Class == sessioncache.ClassSearch), termShell: yes(s.Shell),
		termOther: yes(s.Class != sessioncache.ClassEdit && s.Class != sessioncache.ClassWrite), termEditAge: log2(never),
	}
	if s.Path != 0 {
		idle = log2(int(now - max(s.Turn, file.touched)))
		if e.times > 0 {
			hot := log2(e.times)
			a.x[termHot], a.x[termHotIdle], a.x[termEditAge], a.x[termRecent] = hot, hot*idle, log2(int(now-e.last)), yes(now-e.last <= 5)
		}
		a.x[termEdited], a.x[termWhole] = yes(file.edits > 0), yes(file.whole > 0)
		a.x[termRereadIdle], a.x[termTestIdle] = yes(file.reads > 0)*idle, yes(s.Test)*idle
	}
	a.x[termIdle], a.x[termIdle2] = idle, idle*idle
}

// never stands for the turns since the last edit of a file that was not edited.
const never = 98

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
