// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

// This file finds signs in a conversation that its model has missed folded text.

import (
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Misses holds the folds of a conversation and the signs that they were missed.
type Misses struct {
	// Fresh counts the signs in the new blocks.
	Fresh missSigns

	missed int      // in all blocks
	folded int      // folded blocks
	files  []uint64 // files of missed texts, one entry per miss
}

// share returns the share of missed folds.
func (g *Misses) share() float64 { return float64(g.missed) / float64(g.folded+fewFolds) }

// TooMuch reports whether too many folds were missed for any further fold.
func (g *Misses) TooMuch() bool { return g.share() > maxMissShare }

// Care is the factor for the need of all blocks.
func (g *Misses) Care() float64 { return 1 + caredFor*g.share() }

const (
	// fewFolds is added to the number of folds, because the first few say little.
	fewFolds = 10
	// maxMissShare is the share of missed folds above which folding stops: three misses at first,
	// eleven with fifty folded blocks.
	maxMissShare = 0.2
	// caredFor is the increase of the care if all folds are missed.
	caredFor = 10
)

// findMisses searches the new blocks for signs of missed folds, stores them there, and sums up
// those of the conversation.
func (r *request) findMisses() {
	// Under observe, where no fold was sent, these are rereads and failed edits of text that would have been
	// folded. The planner heeds them all the same: sent folds would have met them.
	h, g, l := &r.History, &r.misses, r.match.Conversation
	count := func(s *sessioncache.BlockState) {
		if s.Missed {
			g.missed++
			g.files = append(g.files, s.File)
		}
	}
	for _, i := range r.entries {
		if content.Folded(h.States[i].Edit) {
			g.folded++
		}
		count(&h.States[i])
	}
	for i := h.Known; i < len(h.States); i++ {
		s := &h.States[i]
		if content.Folded(s.Edit) {
			g.folded++
		}
		if h.Blocks[i].Kind == wire.KindToolResult && g.folded > 0 {
			switch {
			case rereads(h, i):
				s.Missed = true
				g.Fresh.Reread++
			case fails(h, i):
				s.Missed = true
				g.Fresh.Failed++
			}
		}
		count(s)
	}
	for _, n := range l.Expanded {
		g.missed += int(n)
	}
}

// rereads reports whether a result shows a folded text of its file again.
func rereads(h *content.History, i int) bool {
	s := &h.States[i]
	if s.Class != sessioncache.ClassRead || h.Blocks[i].Has(wire.FlagError) || s.Trait == "" {
		return false
	}
	j := foldedAs(h, i)
	return j >= 0 && content.Shows(h.States[j].Trait, h.Text(i))
}

// fails reports whether a result says that an edit did not find its text, in a file with a folded
// text.
func fails(h *content.History, i int) bool {
	if h.States[i].Class != sessioncache.ClassEdit || foldedAs(h, i) < 0 {
		return false
	}
	text := h.Text(i)
	text = text[:min(len(text), 1000)]
	for _, words := range misplaced {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}

// misplaced are the messages of tools that did not find the text to replace.
var misplaced = [...]string{
	"String to replace not found in file",  // Claude Code
	"apply_patch verification failed",      // Codex
	"Could not find the exact text in",     // pi
	"Could not find edits[",                // pi, for several edits
	"Could not find oldString in",          // opencode
	"oldString not found in content",       // opencode, older versions
	"0 occurrences found for old_string",   // Gemini CLI
	"could not find the string to replace", // Gemini CLI, in the terminal
	"did not appear verbatim in",           // SWE-agent, Anthropic's text editor
}

// foldedAs returns the folded block that was the last to show the file of block i, -1 if there is
// none or a later block shows the whole file.
func foldedAs(h *content.History, i int) int {
	file := h.States[i].File
	if file == 0 {
		return -1
	}
	for j := i - 1; j >= 0; j-- {
		s, b := &h.States[j], &h.Blocks[j]
		switch {
		case s.File != file || b.Has(wire.FlagError):
		case s.Class == sessioncache.ClassRead && b.Kind == wire.KindToolResult, s.Class == sessioncache.ClassWrite &&
			b.Kind == wire.KindToolUse:
			if content.Folded(s.Edit) {
				return j
			}
			// The prompt shows the whole file since.
			if s.Whole || s.Class == sessioncache.ClassWrite {
				return -1
			}
		case s.Class == sessioncache.ClassEdit && b.Kind == wire.KindToolUse && content.Folded(s.Edit) &&
			s.Edit.Stage != stage.Replaced:
			return j
		}
	}
	return -1
}

// Need raises the need of a block by the missed texts of its file.
func (g *Misses) Need(h *content.History, i int, need float64) float64 {
	for _, file := range g.files {
		if file != 0 && file == h.States[i].File && !h.Blocks[i].IsThinking() {
			need *= 2
		}
	}
	return min(1, need)
}
