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
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

const (
	stageInputs   = "fold_inputs"
	stageReplaced = "fold_replaced"
)

// foldable returns the bytes that folding a block would save, about, 0 if it
// is not to be folded.
func (p *planner) foldable(i int) int {
	b, s := &p.blocks[i], &p.states[i]
	if !p.zones.middle(b) || s.Pinned {
		return 0
	}
	switch b.Kind {
	case wire.KindToolResult:
		if p.o.Prune.Mode == Disabled || b.Has(wire.FlagError) || b.Has(wire.FlagMedia) || s.Trait == "" ||
			int(s.Unused) < *p.o.Prune.After || s.Edit != nil && s.Edit.Stage == stagePrune {
			return 0
		}
		return p.size(i) - stubLength
	case wire.KindToolUse:
		if !p.inputs(i) || s.Edit != nil && s.Edit.Stage == stageInputs {
			return 0
		}
		return p.size(i) - stubLength
	case wire.KindThinking, wire.KindRedactedThinking:
		// Where thinking is bound to its past, bindThinking takes away what the
		// other edits invalidate, and nothing else may go.
		if p.rules.BindsThinking || !p.strips() || s.Edit != nil ||
			i >= p.answer || p.loop && i >= p.task || !p.removable(i) {
			return 0
		}
		return b.Span.Len()
	}
	return 0
}

// cut is the number of bytes that folding a block would save, whole or only what
// it has replaced. It is zero where neither is worth it.
type cut struct{ all, part int }

// cuts returns what folding each block would save, and whether any would.
func (p *planner) cuts() (cuts []cut, some bool) { return p.cutsOver(minFold) }

// cutsOver returns the cuts of so many bytes or more.
func (p *planner) cutsOver(least int) (cuts []cut, some bool) {
	cuts = zeroed(p.room.cuts, len(p.blocks))
	p.room.cuts = cuts
	for i := range p.blocks {
		if c := (cut{p.foldable(i), p.replaced(i)}); c.all >= least || c.part >= least {
			cuts[i], some = c, true
		}
	}
	return cuts, some
}

// inputs tells whether a block is a call that wrote into a file, and that is not
// signed.
func (p *planner) inputs(i int) bool {
	s := &p.states[i]
	return (p.o.Planner.FoldInputs == nil || *p.o.Planner.FoldInputs) && s.Trait != "" && !p.blocks[i].Has(wire.FlagSigned) &&
		(s.Class == sessioncache.ClassEdit || s.Class == sessioncache.ClassWrite)
}

// replaced returns the bytes that folding only what a call has replaced would
// save: text that its file does not hold any more, and that no later edit of it
// can quote.
func (p *planner) replaced(i int) int {
	s := &p.states[i]
	if p.blocks[i].Kind != wire.KindToolUse || s.Edit != nil || !p.zones.middle(&p.blocks[i]) || !p.inputs(i) {
		return 0
	}
	return int(s.Replaced) - stubLength/2
}

// stubLength is about how long what stands in for a block is.
const stubLength = 150

// fold folds everything worthwhile from a block on, and tells how many blocks
// and tokens that were.
func (p *planner) fold(from int) (blocks, tokens int) {
	var sum float64
	for i := from; i < len(p.blocks); i++ {
		if p.value[i] <= 0 {
			continue
		}
		switch b := &p.blocks[i]; b.Kind {
		case wire.KindToolResult:
			value := p.withMedia(b, p.stub(i, p.preview(i)))
			if len(value)+minGain > p.size(i) {
				continue
			}
			p.set(i, stagePrune, wire.OpReplace, value)
		case wire.KindToolUse:
			value := foldInput(p.view.Bytes(b.Body), p.stubName(i), p.partly[i])
			if len(value)+minGain > p.size(i) {
				continue
			}
			stage := stageInputs
			if p.partly[i] {
				stage = stageReplaced
			}
			p.set(i, stage, wire.OpReplace, value)
		case wire.KindText:
			p.set(i, stageNarration, wire.OpRemove, nil)
		default:
			p.set(i, stageThinking, wire.OpRemove, nil)
		}
		blocks++
		sum += p.saving[i]
	}
	return blocks, int(sum)
}

// preview is the number of first lines that the stub of a result keeps.
func (p *planner) preview(i int) int {
	if p.states[i].Class == sessioncache.ClassRead {
		return 0
	}
	return *p.o.Prune.Preview
}

// longString is the length from which a string in a call's input is folded.
const longString = 160

// foldInput replaces the long strings in the input of a call, or only those
// that say what it replaced. Names, paths and everything short stay, in the
// client's own bytes.
func foldInput(body []byte, name string, replaced bool) []byte {
	if len(body) > 0 && body[0] == '"' { // OpenAI: JSON text in a string, or a patch
		text := gjson.ParseBytes(body).Str
		if isPatch(text) {
			return quote(foldPatch(text, name, replaced))
		}
		return quote(string(foldStrings([]byte(text), name, replaced)))
	}
	return foldStrings(body, name, replaced)
}

// foldStrings replaces long string values of a JSON object, at the top level
// and in arrays of objects below it (several edits in one call).
func foldStrings(object []byte, name string, replaced bool) []byte {
	out := make([]byte, 0, 256)
	at, n := 0, 0
	longStrings(gjson.ParseBytes(object), 0, func(key string, x gjson.Result) {
		n++
		patch := isPatch(x.Str)
		if replaced && !isReplaced(key) && !patch || x.Index < at {
			return
		}
		out = append(out, object[at:x.Index]...)
		if patch {
			out = append(out, quote(foldPatch(x.Str, name+"."+strconv.Itoa(n), replaced))...)
			at = x.Index + len(x.Raw)
			return
		}
		out = append(out, quote(inputStub(name+"."+strconv.Itoa(n), x.Str))...)
		at = x.Index + len(x.Raw)
	})
	return append(out, object[at:]...)
}

// longStrings calls f for the long string values of an object.
func longStrings(v gjson.Result, depth int, f func(key string, x gjson.Result)) {
	if !v.IsObject() && !v.IsArray() {
		return
	}
	v.ForEach(func(k, x gjson.Result) bool {
		switch {
		case x.Type == gjson.String && len(x.Raw) > longString && x.Index > 0:
			f(k.Str, x)
		case depth < 3:
			longStrings(x, depth+1, f)
		}
		return true
	})
}

// isReplaced tells whether a member of an edit's input says what it replaced.
func isReplaced(key string) bool { return strings.HasPrefix(key, "old") }

// replacedBytes counts what an edit says it replaced.
func replacedBytes(input gjson.Result) (n int) {
	if input = decoded(input); input.Type == gjson.String {
		if isPatch(input.Str) {
			n = patchedBytes(input.Str)
		}
		return n
	}
	longStrings(input, 0, func(key string, x gjson.Result) {
		if isPatch(x.Str) {
			n += patchedBytes(x.Str)
		} else if isReplaced(key) {
			n += len(x.Raw)
		}
	})
	return n
}

// summons is how the requests of coding agents begin that ask for a summary to
// go on from.
var summons = []string{
	"CRITICAL: Respond with TEXT ONLY", "You are performing a CONTEXT CHECKPOINT COMPACTION", "Your task is to create a detailed summary of the conversation",
	"First, reason in your scratchpad. Then, generate the <state_snapshot>",
}

func compacts(body string) bool {
	for _, s := range summons {
		if strings.Contains(body[:min(len(body), 400)], s) {
			return true
		}
	}
	return false
}
