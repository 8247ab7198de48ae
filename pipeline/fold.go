// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package pipeline

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/history"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/stub"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// foldable returns the bytes that folding a block would save, about, 0 if it
// is not to be folded.
func (f *frame) foldable(i int) int {
	b, s := &f.Blocks[i], &f.States[i]
	if !f.zones.middle(b) || s.Pinned {
		return 0
	}
	switch b.Kind {
	case wire.KindToolResult:
		if f.o.Prune.Mode == stage.Off || b.Has(wire.FlagError) || b.Has(wire.FlagMedia) || s.Trait == "" ||
			int(s.Unused) < *f.o.Prune.After || s.Edit != nil && s.Edit.Stage == stage.Prune {
			return 0
		}
		return f.Size(i) - stub.Length
	case wire.KindToolUse:
		if !f.inputs(i) || s.Edit != nil && s.Edit.Stage == stage.Inputs {
			return 0
		}
		return f.Size(i) - stub.Length
	case wire.KindThinking, wire.KindRedactedThinking:
		// Where thinking is bound to its past, bindThinking takes away what the
		// other edits invalidate, and nothing else may go.
		if f.rules.BindsThinking || !f.strips() || s.Edit != nil ||
			i >= f.answer || f.loop && i >= f.task || !f.removable(i) {
			return 0
		}
		return b.Span.Len()
	}
	return 0
}

// cut is the number of bytes that folding a block would save, whole or only what
// it has replaced. It is zero where neither is worth it.
type cut struct{ all, part int }

// cuts returns what folding each block would save where that is so many bytes or
// more, and whether any would.
func (f *frame) cuts(in []cut, least int) (cuts []cut, some bool) {
	cuts = history.Zeroed(in, len(f.Blocks))
	for i := range f.Blocks {
		c := cut{f.foldable(i), f.replaced(i)}
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

// inputs tells whether a block is a call that wrote into a file, and that is not
// signed.
func (f *frame) inputs(i int) bool {
	s := &f.States[i]
	return (f.o.Planner.FoldInputs == nil || *f.o.Planner.FoldInputs) && s.Trait != "" && !f.Blocks[i].Has(wire.FlagSigned) &&
		(s.Class == sessioncache.ClassEdit || s.Class == sessioncache.ClassWrite)
}

// replaced returns the bytes that folding only what a call has replaced would
// save: text that its file does not hold any more, and that no later edit of it
// can quote.
func (f *frame) replaced(i int) int {
	s := &f.States[i]
	if f.Blocks[i].Kind != wire.KindToolUse || s.Edit != nil || !f.zones.middle(&f.Blocks[i]) || !f.inputs(i) {
		return 0
	}
	return int(s.Replaced) - stub.Length/2
}

// minFold is the saving in bytes below which a block is not folded.
const minFold = 300

// fold makes the edits of a plan, but those whose stubs would save nothing, and
// returns how many blocks and tokens they were.
func (f *frame) fold(folds []planner.Fold) (blocks, tokens int) {
	var sum float64
	for _, x := range folds {
		i := x.Block
		switch b := &f.Blocks[i]; b.Kind {
		case wire.KindToolResult:
			value := content.WithText(f.View, b, f.stub(i, f.preview(i)))
			if len(value)+stage.MinGain > f.Size(i) {
				continue
			}
			f.set(i, stage.Prune, wire.OpReplace, value)
		case wire.KindToolUse:
			value := stub.Fold(f.View.Bytes(b.Body), f.stubName(i), x.Part)
			if len(value)+stage.MinGain > f.Size(i) {
				continue
			}
			what := stage.Inputs
			if x.Part {
				what = stage.Replaced
			}
			f.set(i, what, wire.OpReplace, value)
		case wire.KindText:
			f.set(i, stage.Narration, wire.OpRemove, nil)
		default:
			f.set(i, stage.Thinking, wire.OpRemove, nil)
		}
		blocks++
		sum += x.Tokens
	}
	return blocks, int(sum)
}

// preview is the number of first lines that the stub of a result keeps.
func (f *frame) preview(i int) int {
	if f.States[i].Class == sessioncache.ClassRead {
		return 0
	}
	return *f.o.Prune.Preview
}
