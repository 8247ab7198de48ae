// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// foldable returns the approximate number of bytes that folding a block would save, 0 if it must
// not be folded.
func (r *request) foldable(i int) int {
	b, s := &r.Blocks[i], &r.States[i]
	if !r.zones.Middle(b) || s.Pinned {
		return 0
	}
	switch b.Kind {
	case wire.KindToolResult:
		if r.o.Prune.Mode == stage.Off || b.Has(wire.FlagError) || b.Has(wire.FlagMedia) || s.Trait == "" ||
			int(s.Unused) < *r.o.Prune.After || s.Edit != nil && s.Edit.Stage == stage.Prune {
			return 0
		}
		return r.Size(i) - content.StubLength
	case wire.KindToolUse:
		if !r.inputs(i) || s.Edit != nil && s.Edit.Stage == stage.Inputs {
			return 0
		}
		return r.Size(i) - content.StubLength
	case wire.KindThinking, wire.KindRedactedThinking:
		// bindThinking removes thinking that other edits invalidate. Thinking bound to its past
		// must not be removed otherwise.
		if r.rules.BindsThinking || !r.strips() || s.Edit != nil ||
			i >= r.run.answer || r.run.loop && i >= r.run.task || !r.removable(i) {
			return 0
		}
		return b.Span.Len()
	}
	return 0
}

// cut is the number of bytes saved by folding a whole block, or only the text that an edit
// replaced. Zero means not worth folding.
type cut struct{ all, part int }

// cuts returns the savings of all blocks, ignoring savings below least, and whether there are any.
func (r *request) cuts(in []cut, least int) (cuts []cut, some bool) {
	cuts = content.Zeroed(in, len(r.Blocks))
	for i := range r.Blocks {
		if r.Blocks[i].Span.Len() < least && r.States[i].Edit == nil {
			continue // most blocks are short
		}
		c := cut{r.foldable(i), r.replaced(i)}
		if c.all < least {
			c.all = 0
		}
		if c.part < least {
			c.part = 0
		}
		if c != (cut{}) {
			cuts[i], some = c, true
		}
	}
	return cuts, some
}

// inputs reports whether a block is an unsigned call that wrote to a file.
func (r *request) inputs(i int) bool {
	s := &r.States[i]
	return (r.o.Planner.FoldInputs == nil || *r.o.Planner.FoldInputs) && s.Trait != "" && !r.Blocks[i].Has(wire.FlagSigned) &&
		(s.Class == sessioncache.ClassEdit || s.Class == sessioncache.ClassWrite)
}

// replaced returns the bytes saved by folding only the text that a call replaced.
func (r *request) replaced(i int) int {
	s := &r.States[i]
	if r.Blocks[i].Kind != wire.KindToolUse || s.Edit != nil || !r.zones.Middle(&r.Blocks[i]) || !r.inputs(i) {
		return 0
	}
	// The file does not contain this text any more, so no later edit can quote it.
	return int(s.Replaced) - content.StubLength/2
}

// fold makes the edits of a plan, except where the stub saves too little. It returns the numbers of
// blocks and tokens folded.
func (r *request) fold(folds []planner.Fold) (blocks, tokens int) {
	var sum float64
	for _, x := range folds {
		i := x.Block
		switch b := &r.Blocks[i]; b.Kind {
		case wire.KindToolResult:
			value := content.WithText(r.View, b, r.stub(i, r.preview(i)))
			if len(value)+stage.MinGain > r.Size(i) {
				continue
			}
			r.set(i, stage.Prune, wire.OpReplace, value)
		case wire.KindToolUse:
			value := content.Fold(r.View.Bytes(b.Body), r.stubName(i), x.Part)
			if len(value)+stage.MinGain > r.Size(i) {
				continue
			}
			what := stage.Inputs
			if x.Part {
				what = stage.Replaced
			}
			r.set(i, what, wire.OpReplace, value)
		case wire.KindText:
			r.set(i, stage.Narration, wire.OpRemove, nil)
		default:
			r.set(i, stage.Thinking, wire.OpRemove, nil)
		}
		blocks++
		sum += x.Tokens
	}
	return blocks, int(sum)
}

// preview is the number of first lines that the stub of a result keeps.
func (r *request) preview(i int) int {
	if r.States[i].Class == sessioncache.ClassRead {
		return 0
	}
	return *r.o.Prune.Preview
}
