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

// Compress configures the removal of words from prose. The short texts are computed after
// responses; a request uses only known ones. Errors, calls and human texts keep all their words.
type Compress struct {
	// MinBytes is the minimum size of a text in bytes.
	MinBytes int
	// Kinds are the kinds of texts to compress.
	Kinds []Prose
	// Find returns the known result for a block's text, by the block's hash.
	Find func(s *sessioncache.Session, block wire.Hash) (Shortened, bool)
}

// Prose is a kind of text.
type Prose string

// The kinds of texts: results of other tools, results of file reads, output of searches and
// commands, and the model's own texts.
const (
	ProseResults Prose = "results"
	ProseFiles   Prose = "files"
	ProseOutput  Prose = "output"
	ProseAnswers Prose = "answers"
)

// CheckProse returns an error for the first unknown or repeated kind.
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

// Shortened is the result of compressing a text.
type Shortened struct {
	// Text is the short text, "" if the original should stay.
	Text string
	// Took is the time that the compression took.
	Took time.Duration
}

// Compressed sums up the compressed texts of a request.
type Compressed struct {
	// Texts is the number of compressed texts, Tokens their estimated saving.
	Texts, Tokens int
	// Took is the compression time of the texts that are short in this request for the first time.
	Took time.Duration
}

// spared is the number of turns at the end of a conversation that keep all their words.
const spared = 4

// compress replaces texts by their known short forms.
func (r *request) compress() {
	if r.p.Compress == nil || len(r.States) == 0 {
		return
	}
	last := r.States[len(r.States)-1].Turn
	for i := range r.Blocks {
		b, s := &r.Blocks[i], &r.States[i]
		// Only texts that the upstream reads again anyway: others would invalidate cached bytes.
		if s.Turn+spared > last || !r.anew(i) || !r.zones.Middle(b) || !r.open(i) || !r.wordy(i) {
			continue
		}
		short, ok := r.p.Compress.Find(r.session, b.Hash)
		if !ok {
			r.wanted = append(r.wanted, i)
		}
		if short.Text == "" {
			continue
		}
		text := content.ShortenedResult(r.View, i, r.stubName(i), r.Text(i), r.back(i), short.Text)
		if value := content.Quote(text); len(value)+stage.MinGain <= r.Size(i) {
			r.set(i, stage.Compress, wire.OpReplace, value)
			r.took += short.Took
		}
	}
}

// wordy reports whether a block may be compressed, by all criteria except its text.
func (r *request) wordy(i int) bool {
	b := &r.Blocks[i]
	if b.Body.Len() < r.p.Compress.MinBytes || r.States[i].Pinned || b.Has(wire.FlagError) || b.Has(wire.FlagMedia) || b.Has(wire.FlagSigned) {
		return false
	}
	kind := ProseResults
	switch {
	case b.Kind == wire.KindText && b.Role == wire.RoleAssistant && r.offer.expand != expandNone:
		kind = ProseAnswers // there is no call to run again
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
	return slices.Contains(r.p.Compress.Kinds, kind)
}

// Unread calls f, after a response, with the compressible texts of the request without a known
// result: new texts, and texts that compress looked up in vain. It stops when f returns false.
func (x *Exchange) Unread(f func(block wire.Hash, text string) bool) {
	r := &x.req
	if x.lineage == nil || r.p.Compress == nil {
		return
	}
	r.session.Lock()
	defer r.session.Unlock()
	offer := func(i int) bool {
		b := &r.Blocks[i]
		if _, ok := r.p.Compress.Find(r.session, b.Hash); ok {
			return true
		}
		return f(b.Hash, content.Of(r.View, b))
	}
	for i := r.Known; i < len(r.Blocks); i++ {
		if r.wordy(i) && !offer(i) {
			return
		}
	}
	for _, i := range r.wanted {
		if i < r.Known && !offer(i) {
			return
		}
	}
}

// compressed sums up the compressed texts. The session is locked.
func (r *request) compressed() (c Compressed) {
	e, tokens := newEstimator(&r.session.Calibration, r.match.Lineage), 0.0
	for i := range r.States {
		if edit := r.States[i].Edit; edit != nil && edit.Stage == stage.Compress {
			c.Texts++
			tokens += e.Tokens(r.Blocks[i].Kind, r.Blocks[i].Body.Len()-len(edit.Value))
		}
	}
	c.Tokens, c.Took = int(tokens), r.took
	return c
}
