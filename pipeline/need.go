// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

// Need tells how likely the agent is to need a block again: that it will
// edit a file by quoting what the block shows.

import (
	"math"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/admission"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// NeedGroup is a kind of blocks whose need has a model of its own.
type NeedGroup uint8

// The groups, and their number.
const (
	GroupResults NeedGroup = iota // of commands, searches and all else
	GroupReads                    // results that show a file
	GroupInputs                   // what calls have written into files
	Groups
)

// The terms of the model, each in one of some bins. Numbers of turns and of calls are
// binned by [NeedBin].
const (
	TermAge     = iota // turns since the block, or since a read that relies on it
	TermIdle           // turns since the last call about its file
	TermUnused         // answers in a row that did not refer to it
	TermUses           // answers that did
	TermSize           // its size in units of 256 bytes
	TermForm           // 1 whole file, 2 by shell, 4 a file of tests, 8 found by a search
	TermEdits          // edits of its file so far
	TermEditAge        // turns since the last of them
	TermEdited         // edits of its file since the block
	TermReads          // reads of its file since the block
	TermWhole          // those of them that show, or have written, all of it
	TermTouches        // calls about its file so far
	TermTasks          // prompts of a person since the block
	TermNow            // turns of the conversation so far
	TermPrompts        // prompts of a person so far
	TermLate           // the share of all edits that were of files at rest, in sixteenths
	TermSource         // the share of its lines that look like source code, in sixteenths
	TermAgain          // the share of its lines that later blocks hold, in eighths
	TermRate           // edits so far, of a hundred turns
	Terms
)

// NeedFeatures are the bins of the terms of one block.
type NeedFeatures [Terms]uint8

// Appraisal is what is known of a block's need.
type Appraisal struct {
	// NeedGroup is the model that counts, X what goes into it.
	Group NeedGroup
	X     NeedFeatures
}

// file is what is known of a file: all calls about it so far, and, on the way from
// the end of the conversation to its beginning, those behind a block.
type file struct {
	calls, edits int    // so far
	edit         uint16 // the turn of the last edit, if any
	last         uint16 // the turn of the last call

	read, edited, whole int    // behind the block
	touched             uint16 // the turn of the last call behind the block
	relied              uint16 // the turn of the last read that relies on what stands before it
}

// NeedScratch is memory for appraisals, to be used again.
type NeedScratch struct {
	known []Appraisal
	files map[uint64]int32 // where in store
	store []file
	about []int32 // where in store the file of each block is, plus one; 0 for none
	habit habit
}

// habit is how the agent edits: all edits so far, and those of files that no call had
// been about for a while.
type habit struct{ edits, late int }

// rest is the number of turns without a call about it after which a file is at rest.
const rest = 6

// NewNeedScratch returns one that is ready to be used.
func NewNeedScratch() NeedScratch { return NeedScratch{files: make(map[uint64]int32)} }

// mostFiles bounds the memory of maps that are kept for the next request.
const mostFiles = 1024

// Clear makes the scratch memory ready for another conversation, and reports whether it
// is worth keeping.
func (r *NeedScratch) Clear() bool {
	if len(r.files) > mostFiles {
		return false
	}
	clear(r.files)
	r.store = r.store[:0]
	return true
}

// of finds a file in the store.
func (r *NeedScratch) of(path uint64) int32 {
	i, ok := r.files[path]
	if !ok {
		i = int32(len(r.store))
		r.store = append(r.store, file{})
		r.files[path] = i
	}
	return i
}

// Appraise looks at each block that is wanted, all if wanted is nil. What it
// returns is good until the scratch is used again.
func (r *NeedScratch) Appraise(h *content.History, wanted func(i int) bool) []Appraisal {
	out := content.Zeroed(r.known, len(h.Blocks))
	r.known = out
	if len(h.Blocks) == 0 {
		return out
	}
	r.survey(h)
	end := &h.States[len(h.States)-1]
	for i := len(h.Blocks) - 1; i >= 0; i-- {
		s, b := &h.States[i], &h.Blocks[i]
		if s.Class == sessioncache.ClassNone {
			continue
		}
		var f *file
		if at := r.about[i]; at > 0 {
			f = &r.store[at-1]
		}
		if wanted == nil || wanted(i) {
			out[i].characterise(s, b, f, r.habit, end)
		}
		if f != nil {
			f.pass(s, b)
		}
	}
	return out
}

// changes reports whether a block is a call that edits or writes a file.
func changes(s *sessioncache.BlockState, b *wire.Block) bool {
	return b.Kind == wire.KindToolUse && (s.Class == sessioncache.ClassEdit || s.Class == sessioncache.ClassWrite)
}

// shows reports whether a block is a result that shows a file.
func shows(s *sessioncache.BlockState, b *wire.Block) bool {
	return b.Kind == wire.KindToolResult && s.Class == sessioncache.ClassRead && !b.Has(wire.FlagError)
}

// survey goes through the conversation from its beginning.
func (r *NeedScratch) survey(h *content.History) {
	r.habit, r.about = habit{}, content.Zeroed(r.about, len(h.States))
	var last uint64 // a result is about the file of its call, right in front of it
	var at int32
	for i := range h.States {
		s, b := &h.States[i], &h.Blocks[i]
		if s.File == 0 || s.Class == sessioncache.ClassNone {
			continue
		}
		if s.File != last {
			last, at = s.File, r.of(s.File)
		}
		r.about[i] = at + 1
		f := &r.store[at]
		if changes(s, b) {
			if r.habit.edits++; f.calls > 0 && s.Turn-f.last >= rest {
				r.habit.late++
			}
			f.edits++
			f.edit = s.Turn
		}
		if b.Kind == wire.KindToolUse {
			f.calls++
		}
		f.last = s.Turn
	}
}

// pass leaves a block behind on the way to the beginning.
func (f *file) pass(s *sessioncache.BlockState, b *wire.Block) {
	f.touched = max(f.touched, s.Turn)
	switch {
	case changes(s, b):
		f.edited++
		if s.Class == sessioncache.ClassWrite {
			f.whole++
		}
	case shows(s, b) && s.Relies:
		if f.relied == 0 {
			f.relied = s.Turn
		}
	case shows(s, b) && !admission.Points(s.Edit):
		f.read++
		if s.Whole {
			f.whole++
		}
	}
}

func (a *Appraisal) characterise(s *sessioncache.BlockState, b *wire.Block, f *file, by habit, end *sessioncache.BlockState) {
	switch {
	case b.Kind == wire.KindToolUse:
		a.Group = GroupInputs
	case s.Class == sessioncache.ClassRead:
		a.Group = GroupReads
	}
	now, x := end.Turn, &a.X
	age := int(now - s.Turn)
	x[TermAge], x[TermIdle] = NeedBin(age), NeedBin(age)
	x[TermUnused], x[TermUses] = NeedBin(min(int(s.Unused), age)), NeedBin(int(s.Used))
	x[TermSize] = NeedBin(b.Body.Len() / 256)
	x[TermForm] = flag(s.Whole, 1) | flag(s.Shell, 2) | flag(s.Test, 4) | flag(s.Class == sessioncache.ClassSearch, 8)
	x[TermSource], x[TermAgain] = s.Source, again(s)
	x[TermRate] = NeedBin(100 * by.edits / max(1, int(now)))
	x[TermTasks] = NeedBin(int(end.Task - s.Task))
	x[TermEditAge] = NeedBins - 1
	x[TermNow], x[TermPrompts], x[TermLate] = NeedBin(int(now)), NeedBin(int(end.Task)), NeedBins-1
	if by.edits > 0 {
		x[TermLate] = uint8(min(NeedBins*by.late/by.edits, NeedBins-2))
	}
	if f == nil {
		return
	}
	x[TermAge] = NeedBin(int(now - max(s.Turn, f.relied)))
	x[TermIdle] = NeedBin(int(now - max(s.Turn, f.touched)))
	if f.edits > 0 {
		x[TermEdits], x[TermEditAge] = NeedBin(f.edits), min(NeedBin(int(now-f.edit)), NeedBins-2)
	}
	x[TermEdited], x[TermReads], x[TermWhole] = NeedBin(f.edited), NeedBin(f.read), NeedBin(f.whole)
	x[TermTouches] = NeedBin(f.calls)
}

// again is the share of a block's lines that later blocks hold, in eighths; the last bin
// is for blocks without lines that were looked for.
func again(s *sessioncache.BlockState) uint8 {
	if s.Sampled == 0 {
		return NeedBins - 1
	}
	return uint8(min(NeedBins-2, 8*int(s.Again)/int(s.Sampled)))
}

// NeedBins is the number of bins of a term.
const NeedBins = 16

// starts are the numbers at which the bins begin.
var starts = [NeedBins]int{0, 1, 2, 3, 4, 6, 9, 13, 19, 28, 40, 60, 90, 140, 220, 350}

var bins = func() (table [512]uint8) {
	for n := range table {
		for b := range starts {
			if n >= starts[b] {
				table[n] = uint8(b)
			}
		}
	}
	return table
}()

// NeedBin returns the bin of a number.
func NeedBin(n int) uint8 {
	switch {
	case n < 0:
		return 0
	case n < len(bins):
		return bins[n]
	}
	return NeedBins - 1
}

func flag(b bool, bit uint8) uint8 {
	if b {
		return bit
	}
	return 0
}

// NeedModel is an additive logistic model for each group: each term adds what its table says
// of its bin.
type NeedModel [Groups]Additive

// Additive is the model of one group.
type Additive struct {
	// Base is what all blocks have in common, in logits.
	Base float32 `json:"base"`
	// Terms are the tables of the terms.
	Terms [Terms][NeedBins]float32 `json:"terms"`
}

// Need is the chance that the agent will want to quote the block once more.
func (m *NeedModel) Need(a *Appraisal) float64 {
	g := &m[a.Group]
	z := g.Base
	for t, bin := range a.X {
		z += g.Terms[t][bin&(NeedBins-1)]
	}
	return 1 / (1 + math.Exp(-float64(z)))
}
