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
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

const stageInputs = "fold_inputs"

// foldable returns the bytes that folding a block would save, about, 0 if it
// is not to be folded.
func (p *planner) foldable(i int) int {
	b, s := &p.blocks[i], &p.states[i]
	if !p.zones.middle(b) {
		return 0
	}
	switch b.Kind {
	case wire.KindToolResult:
		if p.o.Prune.Mode == Disabled || b.Has(wire.FlagError) || b.Has(wire.FlagMedia) || s.Trait == nil ||
			int(s.Unused) < *p.o.Prune.After || s.Edit != nil && s.Edit.Stage == stagePrune {
			return 0
		}
		return p.size(i) - stubLength
	case wire.KindToolUse:
		if p.o.Planner.FoldInputs != nil && !*p.o.Planner.FoldInputs || s.Trait == nil || s.Edit != nil ||
			s.Class != sessioncache.ClassEdit && s.Class != sessioncache.ClassWrite {
			return 0
		}
		return b.Body.Len() - stubLength
	case wire.KindThinking, wire.KindRedactedThinking:
		if p.o.StripThinking.Mode == Disabled || s.Edit != nil || p.loop && i >= p.task || !p.removable(i) ||
			!p.rules.BindsThinking && i >= p.answer {
			return 0
		}
		return b.Span.Len()
	}
	return 0
}

// stubLength is about how long what stands in for a block is.
const stubLength = 220

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
			value := p.withMedia(b, p.stub(i, *p.o.Prune.Preview))
			if len(value)+minGain > p.size(i) {
				continue
			}
			p.set(i, stagePrune, wire.OpReplace, value)
		case wire.KindToolUse:
			value := foldInput(p.view.Bytes(b.Body))
			if len(value)+minGain > b.Body.Len() {
				continue
			}
			p.set(i, stageInputs, wire.OpReplace, value)
		default:
			p.set(i, stageThinking, wire.OpRemove, nil)
		}
		blocks++
		sum += p.saving[i]
	}
	return blocks, int(sum)
}

// longString is the length from which a string in a call's input is folded.
const longString = 160

// foldInput replaces the long strings in the input of a call. Names, paths and
// everything short stay, in the client's own bytes.
func foldInput(body []byte) []byte {
	if len(body) > 0 && body[0] == '"' { // OpenAI chat: JSON text in a string
		return quote(string(foldStrings([]byte(gjson.ParseBytes(body).Str))))
	}
	return foldStrings(body)
}

// foldStrings replaces the long string values of a JSON object, at the top
// level and in arrays of objects below it (several edits in one call).
func foldStrings(object []byte) []byte {
	out := make([]byte, 0, 256)
	at := 0
	var visit func(v gjson.Result, depth int)
	visit = func(v gjson.Result, depth int) {
		v.ForEach(func(_, x gjson.Result) bool {
			switch {
			case x.Type == gjson.String && len(x.Raw) > longString && x.Index > 0:
				out = append(out, object[at:x.Index]...)
				out = append(out, quote(fmt.Sprintf("[llm_cache folded %d lines, %d chars]", countLines(x.Str), utf8.RuneCountInString(x.Str)))...)
				at = x.Index + len(x.Raw)
			case depth < 2 && (x.IsArray() || x.IsObject()):
				visit(x, depth+1)
			}
			return true
		})
	}
	visit(gjson.ParseBytes(object), 0)
	return append(out, object[at:]...)
}

// summons is how the requests of coding agents begin that ask for a summary to
// go on from.
var summons = []string{
	"CRITICAL: Respond with TEXT ONLY", "You are performing a CONTEXT CHECKPOINT COMPACTION", "Your task is to create a detailed summary of the conversation",
}

func compacts(body string) bool {
	for _, s := range summons {
		if strings.Contains(body[:min(len(body), 400)], s) {
			return true
		}
	}
	return false
}
