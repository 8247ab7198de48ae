// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package gemini

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/hidden"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// reinsertion goes through the client's blocks and the parts of the iterations
// side by side. Clients put the pieces of an answer together as they like: into
// one content or several, and texts into one part across iterations.
type reinsertion struct {
	v       *wire.View
	at, end int
	read    int // of the text of the block at
	kept    int // where in that text the last iteration that reached it begins
	edits   []wire.Edit
}

// Reinsert implements [hidden.Codec].
func (Codec) Reinsert(v *wire.View, message int, its []hidden.Iteration) ([]wire.Edit, bool) {
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
		case len(its[n].Hidden()) == 0:
		case n == len(its)-1:
			if !w.results(&its[n], open, last) {
				return nil, false
			}
		case w.at == w.end: // the client has nothing of what came after
			w.behind(&its[n], open)
			return w.edits, true
		case !w.split(&its[n], open):
			return nil, false
		}
	}
	w.skipEmpty()
	return w.edits, w.at == w.end
}

// parts finds the visible parts of an iteration. It returns the hidden ones
// behind the last call.
func (w *reinsertion) parts(it *hidden.Iteration) (open [][]byte, ok bool) {
	for i := range it.Parts {
		p := &it.Parts[i]
		switch {
		case p.Hidden:
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

func (w *reinsertion) isCall(p *hidden.Part) bool {
	b := w.block()
	id := w.v.Text(b.ID)
	return b.Kind == wire.KindToolUse && w.v.Text(b.Name) == p.Name && (id == p.ID || id == "" || p.ID == "")
}

// skipEmpty passes texts that say nothing.
func (w *reinsertion) skipEmpty() {
	for w.at < w.end && w.read == 0 && w.block().Kind == wire.KindText && w.block().Has(wire.FlagEmpty) {
		w.at++
	}
}

// text finds a text of an answer in the client's texts. Thoughts may be missing.
func (w *reinsertion) text(p *hidden.Part) bool {
	want := gjson.GetBytes(p.Raw, "text").Str
	if want == "" { // it carries a signature, if anything
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

// rest is the text of the block at hand.
func (w *reinsertion) rest() string { return gjson.ParseBytes(w.v.Bytes(w.block().Body)).Str }

// leave goes on to the next block. One that several iterations have said keeps
// what the last of them said.
func (w *reinsertion) leave() {
	if w.kept > 0 {
		w.put(w.at, wire.OpReplace, rawjson.Quote(w.rest()[w.kept:]))
	}
	w.at, w.read, w.kept = w.at+1, 0, 0
}

// split puts what was hidden in an iteration, and the results, in front of what
// the next one said.
func (w *reinsertion) split(it *hidden.Iteration, open [][]byte) bool {
	b := w.block()
	if w.read > 0 {
		if b.Has(wire.FlagSigned) || b.Kind != wire.KindText {
			return false
		}
		w.put(w.at, wire.OpBefore, rawjson.Object("text", w.rest()[w.kept:w.read]))
		w.kept = w.read
	} else if first := int(w.v.Messages[b.Message].First); w.at == first && b.Message > 0 && w.v.Messages[b.Message-1].Role == wire.RoleAssistant {
		// A content ends here already.
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

// behind puts what was hidden behind all that the client has.
func (w *reinsertion) behind(it *hidden.Iteration, open [][]byte) {
	w.at--
	w.behindBlock(it, open)
}

func (w *reinsertion) behindBlock(it *hidden.Iteration, open [][]byte) {
	for _, raw := range open {
		w.put(w.at, wire.OpAfter, raw)
	}
	w.put(w.at, wire.OpAfterMessage, toolResults(it))
}

// results puts the hidden calls of the last iteration behind the client's, and
// their results among those of the client's next content, in the order of the
// calls.
func (w *reinsertion) results(it *hidden.Iteration, open [][]byte, message int) bool {
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
		case p.Hidden && calls == 0:
			w.put(answers[0], wire.OpBefore, toolResult(p))
		case p.Hidden:
			w.put(answers[min(calls, len(answers))-1], wire.OpAfter, toolResult(p))
		case p.Kind == wire.KindToolUse:
			calls++
		}
	}
	return true
}
