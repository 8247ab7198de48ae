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

// Package need estimates how likely an agent is to quote a block once more.
package need

import (
	"math"

	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/admission"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/history"
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

// Group is a kind of blocks whose need has a model of its own.
type Group uint8

// The groups, and their number.
const (
	GroupResults Group = iota // of commands, searches and all else
	GroupReads                // results that show a file
	GroupInputs               // what calls have written into files
	Groups
)

// The terms of the linear model, each a number that is known of a block when
// it might be folded.
const (
	TermOne        = iota // the constant
	TermAge2              // the square of log2 of the turns since the block: the need of old blocks falls faster
	TermIdle              // log2 of the turns since the last call about its file
	TermIdle2             // its square
	TermUnused            // log2 of the answers in a row that did not refer to it
	TermSize              // log2 of its size in kilobytes
	TermEdited            // the file was edited since
	TermWhole             // the whole file was read or written since
	TermPart              // it is a part of its file
	TermSearch            // it is the result of a search
	TermShell             // the call is made through a shell
	TermOther             // the call neither edits nor writes a file
	TermHot               // log2 of the edits of the file so far, before the block and since
	TermHotIdle           // termHot times termIdle
	TermEditAge           // log2 of the turns since the last edit of the file
	TermRecent            // that edit was one of the last five turns
	TermRereadIdle        // termIdle of files read again since
	TermTestIdle          // termIdle of files of tests
	Terms
)

// Features are the terms of one block.
type Features [Terms]float64

// Appraisal is what is known of a block's need.
type Appraisal struct {
	// Group is the model that counts, X what goes into it.
	Group Group
	X     Features // the terms
}

// Need is the chance that the agent will want to quote the block once more.
func (a *Appraisal) Need() float64 {
	z := 0.0
	for i, w := range weights[a.Group] {
		z += w * a.X[i]
	}
	return 1 / (1 + math.Exp(-z))
}

// Scratch is memory for appraisals, to be used again.
type Scratch struct {
	known []Appraisal
	files map[uint64]filePast
	edits map[uint64]edited
}

// NewScratch returns memory in which nothing is yet.
func NewScratch() Scratch {
	return Scratch{files: make(map[uint64]filePast), edits: make(map[uint64]edited)}
}

// mostFiles bounds the files of memory that is used again: to empty a map takes
// as long as it has ever been large.
const mostFiles = 1024

// Clear empties the memory, and reports whether it should be used again.
func (r *Scratch) Clear() bool {
	if len(r.files) > mostFiles || len(r.edits) > mostFiles {
		return false
	}
	clear(r.files)
	clear(r.edits)
	return true
}

// Appraise gathers the features of the calls and results among the blocks that
// are wanted; nil stands for all. They are good until the memory is used again.
func (r *Scratch) Appraise(h *history.History, wanted func(i int) bool) []Appraisal {
	out := history.Zeroed(r.known, len(h.Blocks))
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
		case !input && s.Class == sessioncache.ClassRead && !b.Has(wire.FlagError) && !admission.Points(s.Edit):
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
func (a *Appraisal) characterise(h *history.History, i int, file *filePast, e edited) {
	s, b := &h.States[i], &h.Blocks[i]
	now := h.States[len(h.States)-1].Turn
	switch {
	case b.Kind == wire.KindToolUse:
		a.Group = GroupInputs
	case s.Class == sessioncache.ClassRead:
		a.Group = GroupReads
	}
	age, idle := log2(int(now-max(s.Turn, file.relied))), log2(int(now-s.Turn))
	a.X = Features{
		TermOne: 1, TermAge2: age * age, TermUnused: log2(min(int(s.Unused), int(now-s.Turn))), TermSize: math.Log2(1 + float64(b.Body.Len())/1000),
		TermPart: Yes(!s.Whole), TermSearch: Yes(s.Class == sessioncache.ClassSearch), TermShell: Yes(s.Shell),
		TermOther: Yes(s.Class != sessioncache.ClassEdit && s.Class != sessioncache.ClassWrite), TermEditAge: log2(never),
	}
	if s.Path != 0 {
		idle = log2(int(now - max(s.Turn, file.touched)))
		if e.times > 0 {
			hot := log2(e.times)
			a.X[TermHot], a.X[TermHotIdle], a.X[TermEditAge], a.X[TermRecent] = hot, hot*idle, log2(int(now-e.last)), Yes(now-e.last <= 5)
		}
		a.X[TermEdited], a.X[TermWhole] = Yes(file.edits > 0), Yes(file.whole > 0)
		a.X[TermRereadIdle], a.X[TermTestIdle] = Yes(file.reads > 0)*idle, Yes(s.Test)*idle
	}
	a.X[TermIdle], a.X[TermIdle2] = idle, idle*idle
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

// Yes is 1 for true, 0 for false, as a term.
func Yes(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
