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

package interactions

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// Reinsert goes through the client's steps and the parts of the iterations side by side.
// A step that the client has dropped is skipped; one that is none of the parts ends it.
func (Codec) Reinsert(v *wire.View, message int, its []wire.Iteration) ([]wire.Edit, bool) {
	msg := &v.Messages[message]
	at, end := int(msg.First), int(msg.End)
	if at == end {
		return nil, false
	}
	for i := at; i < end; i++ {
		if v.Blocks[i].Has(wire.FlagPart) {
			return nil, false
		}
	}
	var edits []wire.Edit
	for n := range its {
		it := &its[n]
		var open []byte // hidden steps whose place is in front of the next
		for i := range it.Parts {
			p := &it.Parts[i]
			switch {
			case p.Hidden:
				open = wire.AppendElement(open, p.Raw)
			case at < end && isStep(v, &v.Blocks[at], p):
				if open != nil {
					edits, open = append(edits, wire.Edit{Block: at, Op: wire.OpBefore, Value: open}), nil
				}
				at++
			}
		}
		if len(it.Hidden()) == 0 {
			continue
		}
		open = wire.AppendElement(open, toolResults(it))
		if n < len(its)-1 && at < end {
			edits = append(edits, wire.Edit{Block: at, Op: wire.OpBefore, Value: open})
			continue
		}
		edits = append(edits, wire.Edit{Block: end - 1, Op: wire.OpAfterMessage, Value: open})
		break // the client has nothing of what came after
	}
	return edits, at == end
}

// isStep reports whether a block of the client is a step of an answer.
func isStep(v *wire.View, b *wire.Block, p *wire.Part) bool {
	if p.Kind == wire.KindOther {
		return b.Kind == wire.KindOther || b.Kind == wire.KindServerTool
	}
	if b.Kind != p.Kind {
		return false
	}
	step := gjson.ParseBytes(p.Raw)
	switch b.Kind {
	case wire.KindToolUse:
		return v.Text(b.ID) == p.ID
	case wire.KindText:
		return strings.TrimSpace(gjson.ParseBytes(v.Bytes(b.Body)).Str) == strings.TrimSpace(step.Get("content.0.text").Str)
	case wire.KindReasoning:
		mine := gjson.ParseBytes(v.Bytes(b.Span))
		if signature := step.Get("signature").Str; signature != "" {
			return mine.Get("signature").Str == signature
		}
		return mine.Get("summary.#.text").Raw == step.Get("summary.#.text").Raw
	}
	return true
}
