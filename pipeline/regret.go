// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

// Regret finds the signs in a conversation that its model has missed folded text.

import (
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// missSigns counts the signs in a turn.
type missSigns struct {
	// Expanded counts the blocks that the model has asked for again.
	Expanded int
	// Reread counts the reads that show a folded text of their file once more. Agents
	// read files again for other reasons, too.
	Reread int
	// Failed counts the edits that did not find their place in a file of which a text
	// is folded.
	Failed int
}

// Sum is how many there are in all.
func (g *missSigns) Sum() int { return g.Expanded + g.Reread + g.Failed }

// Misses is what a conversation shows of texts that were folded and missed.
type Misses struct {
	// Fresh are the signs in the new blocks.
	Fresh missSigns

	missed int      // in all of them
	folded int      // blocks that are folded
	files  []uint64 // that missed texts are of, once for each time
}

// share is what part of the folds was missed. Of the first few it says little.
func (g *Misses) share() float64 { return float64(g.missed) / float64(g.folded+fewFolds) }

// TooMuch reports whether so many folds were missed that nothing more is to be folded.
func (g *Misses) TooMuch() bool { return g.share() > mostRegret }

// Care is how many times the need of all blocks counts.
func (g *Misses) Care() float64 { return 1 + caredFor*g.share() }

const (
	// fewFolds are counted besides those that were made.
	fewFolds = 10
	// mostRegret is the share of missed folds above which nothing more is folded: three
	// at first, eleven where fifty blocks are folded.
	mostRegret = 0.2
	// caredFor is how many times the care grows for all folds missed.
	caredFor = 10
)

// findMisses looks through the new blocks for signs that folded text was missed, notes them
// there, and sums up those of the conversation.
func findMisses(h *content.History, l *sessioncache.Lineage) (g Misses) {
	for i := range h.States {
		s := &h.States[i]
		if content.Folded(s.Edit) {
			g.folded++
		}
		if i >= h.Known && h.Blocks[i].Kind == wire.KindToolResult && g.folded > 0 {
			switch {
			case rereads(h, i):
				s.Regret = true
				g.Fresh.Reread++
			case fails(h, i):
				s.Regret = true
				g.Fresh.Failed++
			}
		}
		if s.Regret {
			g.missed++
			g.files = append(g.files, s.File)
		}
	}
	for _, n := range l.Expanded {
		g.missed += int(n)
	}
	return g
}

// rereads reports whether a result shows a folded text of its file once more.
func rereads(h *content.History, i int) bool {
	s := &h.States[i]
	if s.Class != sessioncache.ClassRead || h.Blocks[i].Has(wire.FlagError) || s.Trait == "" {
		return false
	}
	j := foldedAs(h, i)
	return j >= 0 && content.Shows(h.States[j].Trait, h.Text(i))
}

// fails reports whether a result says that an edit did not find its place, in a file of
// which a text is folded.
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

// misplaced is how tools say that they did not find what an edit replaces.
var misplaced = [...]string{
	"String to replace not found in file",  // Claude Code
	"apply_patch verification failed",      // Codex
	"Could not find the exact text in",     // pi
	"Could not find edits[",                // pi, of several edits
	"Could not find oldString in",          // opencode
	"oldString not found in content",       // opencode before
	"0 occurrences found for old_string",   // Gemini CLI
	"could not find the string to replace", // Gemini CLI, to people
	"did not appear verbatim in",           // SWE-agent, Anthropic's text editor
}

// foldedAs finds the block in front of another that is folded and was the last to show
// its file: none behind it shows all of it. It is -1 if there is none.
func foldedAs(h *content.History, i int) int {
	file := h.States[i].File
	if file == 0 {
		return -1
	}
	for j := i - 1; j >= 0; j-- {
		s, b := &h.States[j], &h.Blocks[j]
		switch {
		case s.File != file || b.Has(wire.FlagError):
		case s.Class == sessioncache.ClassRead && b.Kind == wire.KindToolResult, s.Class == sessioncache.ClassWrite && b.Kind == wire.KindToolUse:
			if content.Folded(s.Edit) {
				return j
			}
			if s.Whole || s.Class == sessioncache.ClassWrite {
				return -1
			}
		case s.Class == sessioncache.ClassEdit && b.Kind == wire.KindToolUse && content.Folded(s.Edit) && s.Edit.Stage != stage.Replaced:
			return j
		}
	}
	return -1
}

// Need raises the need of a block by the texts of its file that were missed.
func (g *Misses) Need(h *content.History, i int, need float64) float64 {
	for _, file := range g.files {
		if file != 0 && file == h.States[i].File && !content.IsThinking(&h.Blocks[i]) {
			need *= 2
		}
	}
	return min(1, need)
}
