// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"slices"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Compress leaves words out of prose. Which ones is found out behind answers: a
// request uses what is known already, and only where the upstream reads a text anew
// in any case. Errors, calls, and what persons have written keep all their words.
type Compress struct {
	// MinBytes is the size below which a text is left alone.
	MinBytes int
	// Kinds are the kinds of texts to look at.
	Kinds []Prose
	// Find returns what was found out about a block's text, by the block's hash.
	Find func(s *sessioncache.Session, block wire.Hash) (Shortened, bool)
}

// Prose is a kind of text that may hold prose.
type Prose string

// The kinds of texts: what tools have returned that neither read files nor search nor
// run commands, what those have returned, and what the model itself has said.
const (
	ProseResults Prose = "results"
	ProseFiles   Prose = "files"
	ProseOutput  Prose = "output"
	ProseAnswers Prose = "answers"
)

// CheckProse returns an error that names what is no kind of text.
func CheckProse(kinds []Prose) error {
	for i, k := range kinds {
		switch k {
		case ProseResults, ProseFiles, ProseOutput, ProseAnswers:
		default:
			return fmt.Errorf("kinds: %q is none of results, files, output, answers", k)
		}
		if slices.Contains(kinds[:i], k) {
			return fmt.Errorf("kinds: %s is given twice", k)
		}
	}
	return nil
}

// Shortened is what was found out about a text.
type Shortened struct {
	// Text is what is left of it, "" where it is to stay as it is.
	Text string
	// Took is how long it took to find out.
	Took time.Duration
}

// Compressed is what words that were left out come to in a request.
type Compressed struct {
	// Texts is the number of texts in it that are shortened, Tokens what they are
	// shorter by, as estimated.
	Texts, Tokens int
	// Took is how long it took, behind earlier answers, to find out about those
	// that are shortened in this request for the first time.
	Took time.Duration
}

// spared is the number of turns at the end of a conversation that keep all their words.
const spared = 4

// compress puts what is left of texts in their place.
func (r *request) compress() {
	if r.omission.words == nil || len(r.States) == 0 {
		return
	}
	last := r.States[len(r.States)-1].Turn
	for i := range r.Blocks {
		b, s := &r.Blocks[i], &r.States[i]
		if s.Turn+spared > last || !r.anew(i) || !r.zones.Middle(b) || !r.open(i) || !r.wordy(i) {
			continue
		}
		short, ok := r.omission.words.Find(r.session, b.Hash)
		if !ok {
			r.omission.wanted = append(r.omission.wanted, i)
		}
		if short.Text == "" {
			continue
		}
		text := content.ShortenedResult(r.View, i, r.stubName(i), r.Text(i), r.back(i), short.Text)
		if value := content.Quote(text); len(value)+stage.MinGain <= r.Size(i) {
			r.set(i, stage.Compress, wire.OpReplace, value)
			r.omission.took += short.Took
		}
	}
}

// wordy reports whether words may be left out of a block, as far as its text does not
// say.
func (r *request) wordy(i int) bool {
	b := &r.Blocks[i]
	if b.Body.Len() < r.omission.words.MinBytes || r.States[i].Pinned || b.Has(wire.FlagError) || b.Has(wire.FlagMedia) || b.Has(wire.FlagSigned) {
		return false
	}
	kind := ProseResults
	switch {
	case b.Kind == wire.KindText && b.Role == wire.RoleAssistant && r.offer.expand != expandNone:
		kind = ProseAnswers // which nobody can call again
	case b.Kind != wire.KindToolResult:
		return false
	default:
		switch r.States[i].Class {
		case sessioncache.ClassOther:
		case sessioncache.ClassRead:
			kind = ProseFiles
		case sessioncache.ClassSearch, sessioncache.ClassCommand:
			kind = ProseOutput
		default:
			return false
		}
	}
	return slices.Contains(r.omission.words.Kinds, kind)
}

// Unread calls f, behind an answer, with the texts of the request about which nothing is
// known although words may be left out of them: those that are new, and those that were
// looked up in vain. It ends when f returns false.
func (x *Exchange) Unread(f func(block wire.Hash, text string) bool) {
	r := x.req
	if r == nil || r.omission.words == nil || x.standing.lineage == nil {
		return
	}
	r.session.Lock()
	defer r.session.Unlock()
	offer := func(i int) bool {
		b := &r.Blocks[i]
		if _, ok := r.omission.words.Find(r.session, b.Hash); ok {
			return true
		}
		return f(b.Hash, content.Of(r.View, b))
	}
	for i := r.Known; i < len(r.Blocks); i++ {
		if r.wordy(i) && !offer(i) {
			return
		}
	}
	for _, i := range r.omission.wanted {
		if i < r.Known && !offer(i) {
			return
		}
	}
}

// compressed sums up what is shortened. The session is locked.
func (r *request) compressed(l *sessioncache.Lineage) (c Compressed) {
	if r.omission.words == nil {
		return c
	}
	e, tokens := newEstimator(&r.session.Calibration, l), 0.0
	for i := range r.States {
		if edit := r.States[i].Edit; edit != nil && edit.Stage == stage.Compress {
			c.Texts++
			tokens += e.Tokens(r.Blocks[i].Kind, r.Blocks[i].Body.Len()-len(edit.Value))
		}
	}
	c.Tokens, c.Took = int(tokens), r.omission.took
	return c
}
