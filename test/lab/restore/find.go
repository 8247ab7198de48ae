// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"path"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/harm"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// moment is a kind of sign that work on a file is about to begin.
type moment int

const (
	quoted  moment = iota // an edit quoted the folded text
	edited                // an edit of its file
	called                // another call about its file
	beside                // a call about a file in the same folder
	input                 // a call's input names the file
	result                // a result names the file
	failure               // a result with an error names it
	said                  // the agent's text names it
	person                // the user's text names it
	line                  // a result shows one of its lines
	moments
)

var names = [moments]string{
	"an edit has quoted it", "an edit of its file", "another call about its file", "a call about a file beside it",
	"a call names it", "a result names it",
	"an error names it", "the agent's words name it", "a person's words name it", "a result shows a line of it",
}

// fold is one folded text.
type fold struct {
	at, last  int // the requests of the fold and of its last appearance
	bytes     int
	file, dir string // base name and folder of its file
	lines     map[uint64]bool
	first     [moments]int // request of the first moment after the fold, 0 for none
}

// finding is the result of one conversation.
type finding struct {
	*trial.Result
	folds  map[string]*fold // by call id and kind of block
	k      int              // number of requests
	seen   int              // blocks of the last request
	harmed [][][]*fold      // for each harmed edit and each missed line, the folds with the line
	at     []int            // the requests of the harmed edits
	failed error
}

// key identifies a block in its conversation.
func key(v *wire.View, b *wire.Block) string { return string('a'+rune(b.Kind)) + v.Text(b.ID) }

func (f *finding) watch(w *trial.Watched) {
	f.k++
	v := w.View
	blocks := v.MessageBlocks()
	if f.seen > len(blocks) {
		f.seen = len(blocks)
	}
	sent, err := wire.Parse(v.Format, w.Sent, nil)
	if err != nil {
		f.failed = err
		return
	}
	f.signs(v, blocks)
	short := map[string]bool{}
	for i := range sent.MessageBlocks() {
		if b := &sent.MessageBlocks()[i]; bytes.Contains(sent.Bytes(b.Body), []byte(content.StubFrame)) {
			short[key(sent, b)] = true
		}
	}
	for i := range blocks {
		b := &blocks[i]
		if b.Kind != wire.KindToolResult && b.Kind != wire.KindToolUse || b.ID.Empty() || !short[key(v, b)] {
			continue
		}
		x := f.folds[key(v, b)]
		if x == nil {
			x = newFold(v, i, f.k)
			f.folds[key(v, b)] = x
		}
		x.last = f.k
	}
	f.harms(w)
	f.seen = len(blocks)
}

func newFold(v *wire.View, i, k int) *fold {
	b := &v.MessageBlocks()[i]
	x := &fold{at: k, bytes: b.Body.Len(), lines: map[uint64]bool{}}
	j := i
	if b.Kind == wire.KindToolResult {
		j = content.CallOf(v, i)
		for _, l := range content.LineHashes(content.Of(v, b)) {
			x.lines[l] = true
		}
	}
	if j >= 0 {
		c := &v.MessageBlocks()[j]
		if file := content.UnderstandCall(v.Text(c.Name), content.CallInput(v.Bytes(c.Body))).Path; file != "" {
			x.file, x.dir = path.Base(file), path.Dir(file)
		}
	}
	return x
}

// signs records the moments that new blocks are for existing folds.
func (f *finding) signs(v *wire.View, blocks []wire.Block) {
	for i := f.seen; i < len(blocks); i++ {
		b := &blocks[i]
		var c content.Call
		var lines []uint64
		kind, text := said, string(v.Bytes(b.Body))
		switch {
		case b.Kind == wire.KindToolUse:
			c, kind = content.UnderstandCall(v.Text(b.Name), content.CallInput(v.Bytes(b.Body))), input
		case b.Kind == wire.KindToolResult:
			text, kind = content.Of(v, b), result
			lines = content.LineHashes(text)
		case b.Role == wire.RoleUser:
			kind = person
		}
		for _, x := range f.folds {
			note := func(m moment, is bool) {
				if is && x.first[m] == 0 {
					x.first[m] = f.k
				}
			}
			changes := c.Class == sessioncache.ClassEdit || c.Class == sessioncache.ClassWrite
			same := c.Path != "" && path.Base(c.Path) == x.file
			note(edited, same && changes)
			note(called, same && !changes)
			note(beside, c.Path != "" && !same && path.Dir(c.Path) == x.dir)
			named := len(x.file) > 4 && strings.Contains(text, x.file)
			note(kind, named)
			note(failure, named && b.Has(wire.FlagError))
			for _, l := range lines {
				note(line, x.lines[l])
			}
		}
	}
}

// harms records the harmed edits in the answer.
func (f *finding) harms(w *trial.Watched) {
	if len(w.Edits) == 0 || bytes.Equal(w.Sent, w.View.Raw) {
		return
	}
	history, shown := harm.Texts(w.View.Raw), harm.Texts(w.Sent)
	for _, lines := range w.Edits {
		if !harm.Done(lines, history, shown) {
			continue
		}
		var missed [][]*fold
		for _, l := range lines {
			if bytes.Contains(shown, []byte(l)) || !bytes.Contains(history, []byte(l)) {
				continue
			}
			var holders []*fold
			for i := range w.View.MessageBlocks() {
				b := &w.View.MessageBlocks()[i]
				if x := f.folds[key(w.View, b)]; x != nil && bytes.Contains(harm.Texts(w.View.Bytes(b.Span)), []byte(l)) {
					holders = append(holders, x)
				}
			}
			missed = append(missed, holders)
		}
		for _, holders := range missed {
			for _, x := range holders {
				if x.first[quoted] == 0 {
					x.first[quoted] = f.k + 1
				}
			}
		}
		f.harmed, f.at = append(f.harmed, missed), append(f.at, f.k)
	}
}
