// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package gemini

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/intercept"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// reinsertion walks the client's blocks and the parts of the iterations side by side. Clients join the
// pieces of an answer in different ways: into one content or several, and texts of several
// iterations into one part.
type reinsertion struct {
	v       *wire.View
	at, end int // the current block, and the end of the client's blocks
	read    int // number of bytes already matched in the current block's text
	kept    int // offset in this text of the latest iteration in it
	edits   []wire.Edit
}

// Reinsert implements [intercept.Codec].
func (Codec) Reinsert(v *wire.View, message int, its []intercept.Iteration) ([]wire.Edit, bool) {
	last := message
	for last+1 < len(v.Messages) && v.Messages[last+1].Role == wire.RoleAssistant {
		last++
	}
	w := &reinsertion{v: v, at: int(v.Messages[message].First), end: int(v.Messages[last].End)}
	if w.at == w.end {
		return nil, false
	}
	for n := range its {
		open, ok := w.parts(&its[n])
		if !ok {
			return nil, false
		}
		switch {
		case len(its[n].Intercepted()) == 0:
		case n == len(its)-1:
			if !w.results(&its[n], open, last) {
				return nil, false
			}
		case w.at == w.end: // the client has no parts of later iterations
			w.behind(&its[n], open)
			return w.edits, true
		case !w.split(&its[n], open):
			return nil, false
		}
	}
	w.skipEmpty()
	return w.edits, w.at == w.end
}

// parts matches the visible parts of an iteration. It returns the intercepted calls after the last one.
func (w *reinsertion) parts(it *intercept.Iteration) (open [][]byte, ok bool) {
	for i := range it.Parts {
		p := &it.Parts[i]
		switch {
		case p.Intercepted:
			open = append(open, p.Raw)
		case p.Kind == wire.KindToolUse:
			w.skipEmpty()
			if w.at == w.end || w.read > 0 || !w.isCall(p) {
				return nil, false
			}
			for _, raw := range open {
				w.put(w.at, wire.OpBefore, raw)
			}
			open = nil
			w.at++
		case p.Kind == wire.KindText || p.Kind == wire.KindThinking:
			if !w.text(p) {
				return nil, false
			}
		case w.at < w.end && w.read == 0 && (w.block().Kind == wire.KindOther || w.block().Kind > wire.KindToolResult):
			w.at++
		}
	}
	return open, true
}

func (w *reinsertion) block() *wire.Block { return &w.v.Blocks[w.at] }

func (w *reinsertion) put(block int, op wire.Op, value []byte) {
	w.edits = append(w.edits, wire.Edit{Block: block, Op: op, Value: value})
}

func (w *reinsertion) isCall(p *intercept.Part) bool {
	b := w.block()
	id := w.v.Text(b.ID)
	return b.Kind == wire.KindToolUse && w.v.Text(b.Name) == p.Name && (id == p.ID || id == "" || p.ID == "")
}

// skipEmpty skips empty texts.
func (w *reinsertion) skipEmpty() {
	for w.at < w.end && w.read == 0 && w.block().Kind == wire.KindText && w.block().Has(wire.FlagEmpty) {
		w.at++
	}
}

// text matches a text of an answer with the client's texts. Thoughts may be missing.
func (w *reinsertion) text(p *intercept.Part) bool {
	want := gjson.GetBytes(p.Raw, "text").Str
	if want == "" { // an empty text may carry a signature
		if w.at < w.end && w.read == 0 && w.block().Kind == wire.KindText && w.block().Has(wire.FlagEmpty) {
			w.at++
		}
		return true
	}
	for want != "" {
		if p.Kind == wire.KindText {
			w.skipEmpty()
		}
		if w.at == w.end || w.block().Kind != p.Kind {
			return p.Kind == wire.KindThinking || strings.TrimSpace(want) == ""
		}
		rest := w.rest()[w.read:]
		switch {
		case len(rest) > len(want) && strings.HasPrefix(rest, want):
			w.read += len(want)
			return true
		case !strings.HasPrefix(want, rest):
			return false
		}
		want = want[len(rest):]
		w.leave()
	}
	return true
}

// rest returns the text of the current block.
func (w *reinsertion) rest() string { return gjson.ParseBytes(w.v.Bytes(w.block().Body)).Str }

// leave advances to the next block.
func (w *reinsertion) leave() {
	// Of a text from several iterations the block keeps the text of the last one. split has moved the
	// rest.
	if w.kept > 0 {
		w.put(w.at, wire.OpReplace, rawjson.Quote(w.rest()[w.kept:]))
	}
	w.at, w.read, w.kept = w.at+1, 0, 0
}

// split inserts the intercepted calls of an iteration, and their results, before the next iteration.
func (w *reinsertion) split(it *intercept.Iteration, open [][]byte) bool {
	b := w.block()
	if w.read > 0 {
		// The block contains texts of both iterations. A signed text cannot be divided.
		if b.Has(wire.FlagSigned) || b.Kind != wire.KindText {
			return false
		}
		w.put(w.at, wire.OpBefore, rawjson.Object("text", w.rest()[w.kept:w.read]))
		w.kept = w.read
	} else if first := int(w.v.Messages[b.Message].First); w.at == first && b.Message > 0 &&
		w.v.Messages[b.Message-1].Role == wire.RoleAssistant {
		// The iteration already ends at the end of a content.
		w.at--
		w.behindBlock(it, open)
		w.at++
		return true
	}
	for _, raw := range open {
		w.put(w.at, wire.OpBefore, raw)
	}
	w.put(w.at, wire.OpSplit, toolResults(it))
	return true
}

// behind inserts the intercepted calls and their results after the last of the client's blocks.
func (w *reinsertion) behind(it *intercept.Iteration, open [][]byte) {
	w.at--
	w.behindBlock(it, open)
}

func (w *reinsertion) behindBlock(it *intercept.Iteration, open [][]byte) {
	for _, raw := range open {
		w.put(w.at, wire.OpAfter, raw)
	}
	w.put(w.at, wire.OpAfterMessage, toolResults(it))
}

// results inserts the intercepted calls of the last iteration and their results.
func (w *reinsertion) results(it *intercept.Iteration, open [][]byte, message int) bool {
	w.skipEmpty()
	if w.at != w.end {
		return false
	}
	var answers []int // the client's results, by block
	if message+1 < len(w.v.Messages) {
		next := &w.v.Messages[message+1]
		for i := int(next.First); i < int(next.End); i++ {
			if w.v.Blocks[i].Kind == wire.KindToolResult {
				answers = append(answers, i)
			}
		}
	}
	if len(answers) == 0 {
		w.behind(it, open)
		w.at = w.end
		return true
	}
	for _, raw := range open {
		w.put(w.end-1, wire.OpAfter, raw)
	}
	calls := 0
	for i := range it.Parts {
		p := &it.Parts[i]
		switch {
		case p.Intercepted && calls == 0:
			// The results go in the order of the calls.
			w.put(answers[0], wire.OpBefore, toolResult(p))
		case p.Intercepted:
			w.put(answers[min(calls, len(answers))-1], wire.OpAfter, toolResult(p))
		case p.Kind == wire.KindToolUse:
			calls++
		}
	}
	return true
}
