// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

// Need estimates how likely the agent is to need a block again: to edit a file by quoting the
// block's text.

import (
	"math"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/admission"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// NeedGroup is a group of blocks with a model of its own.
type NeedGroup uint8

// The groups, and their number.
const (
	GroupResults NeedGroup = iota // of commands, searches and other tools
	GroupReads                    // results of file reads
	GroupInputs                   // texts that calls wrote into files
	Groups
)

// The terms of the model, each divided into bins. Numbers of turns and calls use the bins of
// [NeedBin].
const (
	TermAge     = iota // turns since the block, or since a read that relies on it
	TermIdle           // turns since the last call about its file
	TermUnused         // responses in a row without a reference to it
	TermUses           // responses with a reference to it
	TermSize           // its size in units of 256 bytes
	TermForm           // 1 whole file, 2 by shell, 4 a file of tests, 8 found by a search
	TermEdits          // edits of its file so far
	TermEditAge        // turns since the last edit of its file
	TermEdited         // edits of its file since the block
	TermReads          // reads of its file since the block
	TermWhole          // reads and writes of its whole file since the block
	TermTouches        // calls about its file so far
	TermTasks          // human prompts since the block
	TermNow            // turns of the conversation so far
	TermPrompts        // human prompts so far
	TermLate           // the share of all edits in files at rest, in sixteenths
	TermSource         // the share of its lines that look like source code, in sixteenths
	TermAgain          // the share of its lines repeated by later blocks, in eighths
	TermRate           // edits so far, per hundred turns
	Terms
)

// NeedFeatures holds the bins of the terms of one block.
type NeedFeatures [Terms]uint8

// Appraisal is the input of the model for one block.
type Appraisal struct {
	// NeedGroup selects the model, X holds its features.
	Group NeedGroup
	X     NeedFeatures
}

// file holds the facts about a file: all calls about it so far. During the walk from the end of the
// conversation to its beginning, it also holds the calls after the current block.
type file struct {
	calls, edits int    // so far
	edit         uint16 // the turn of the last edit, if any
	last         uint16 // the turn of the last call

	read, edited, whole int    // after the block
	touched             uint16 // the turn of the last call after the block
	relied              uint16 // the turn of the last read that relies on earlier blocks
}

// NeedScratch is reusable memory for appraisals.
type NeedScratch struct {
	known []Appraisal
	files map[uint64]int32 // index in store
	store []file
	about []int32 // index in store of each block's file, plus one; 0 for none
	habit habit
}

// habit counts all edits of the agent, and the edits of files at rest.
type habit struct{ edits, late int }

// rest is the number of turns without a call about a file after which it is at rest.
const rest = 6

// NewNeedScratch returns an empty scratch.
func NewNeedScratch() NeedScratch { return NeedScratch{files: make(map[uint64]int32)} }

// maxFiles limits the size of maps kept for the next request.
const maxFiles = 1024

// Clear prepares the scratch for another conversation. It returns false if the scratch is too large
// to keep.
func (r *NeedScratch) Clear() bool {
	if len(r.files) > maxFiles {
		return false
	}
	clear(r.files)
	r.store = r.store[:0]
	return true
}

// add adds a file to the store.
func (r *NeedScratch) add(path uint64) {
	if _, ok := r.files[path]; !ok {
		r.files[path] = int32(len(r.store))
		r.store = append(r.store, file{})
	}
}

// Appraise characterizes each wanted block, all if wanted is nil. The result is valid until the
// next use of the scratch.
func (r *NeedScratch) Appraise(h *content.History, wanted func(i int) bool) []Appraisal {
	out := content.Zeroed(r.known, len(h.Blocks))
	r.known = out
	if len(h.Blocks) == 0 {
		return out
	}
	r.survey(h, wanted)
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

// survey walks the conversation from its beginning. Only the files of wanted blocks and edited files
// matter.
func (r *NeedScratch) survey(h *content.History, wanted func(i int) bool) {
	r.habit, r.about = habit{}, content.Zeroed(r.about, len(h.States))
	for i := range h.States {
		if s := &h.States[i]; s.File != 0 && (changes(s, &h.Blocks[i]) || wanted == nil || wanted(i)) {
			r.add(s.File)
		}
	}
	var last uint64 // a result directly follows its call, about the same file
	var at int32
	for i := range h.States {
		s, b := &h.States[i], &h.Blocks[i]
		if s.File == 0 || s.Class == sessioncache.ClassNone {
			continue
		}
		if s.File != last {
			n, ok := r.files[s.File]
			if last, at = s.File, n+1; !ok {
				at = 0
			}
		}
		if r.about[i] = at; at == 0 {
			continue
		}
		f := &r.store[at-1]
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

// pass counts a block in its file, on the walk to the beginning.
func (f *file) pass(s *sessioncache.BlockState, b *wire.Block) {
	f.touched = max(f.touched, s.Turn)
	switch {
	case changes(s, b):
		f.edited++
		if s.Class == sessioncache.ClassWrite {
			f.whole++
		}
	// This read shows some of its lines only by a note that refers to earlier blocks.
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

func (a *Appraisal) characterise(
	s *sessioncache.BlockState, b *wire.Block, f *file, by habit, end *sessioncache.BlockState,
) {
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
	// A later read that relies on earlier blocks makes them as recent as itself.
	x[TermAge] = NeedBin(int(now - max(s.Turn, f.relied)))
	x[TermIdle] = NeedBin(int(now - max(s.Turn, f.touched)))
	if f.edits > 0 {
		x[TermEdits], x[TermEditAge] = NeedBin(f.edits), min(NeedBin(int(now-f.edit)), NeedBins-2)
	}
	x[TermEdited], x[TermReads], x[TermWhole] = NeedBin(f.edited), NeedBin(f.read), NeedBin(f.whole)
	x[TermTouches] = NeedBin(f.calls)
}

// again returns the share of a block's lines that later blocks repeat, in eighths. The last bin is
// for blocks without sampled lines.
func again(s *sessioncache.BlockState) uint8 {
	if s.Sampled == 0 {
		return NeedBins - 1
	}
	return uint8(min(NeedBins-2, 8*int(s.Again)/int(s.Sampled)))
}

// NeedBins is the number of bins of a term.
const NeedBins = 16

// starts are the lower ends of the bins.
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

// NeedModel is an additive logistic model for each group: the score is the sum of one table entry
// per term.
type NeedModel [Groups]Additive

// Additive is the model of one group.
type Additive struct {
	// Base is the constant of all blocks, in logits.
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
