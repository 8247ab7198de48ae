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

// Package flat holds what formats share in which a message is a list of items, one for what was said, thought
// or called: the Responses API and the Interactions API.
package flat

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire/hidden"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire/rawjson"
)

// Reinsert is [hidden.Codec.Reinsert]: it goes through the client's items and the parts of the iterations side by
// side. An item that the client has dropped is skipped; one that is none of the
// parts ends it. says reports whether a text or reasoning is what an item of an answer says;
// results are those of an iteration's hidden calls.
func Reinsert(
	v *wire.View, message int, its []hidden.Iteration,
	says func(v *wire.View, b *wire.Block, item gjson.Result) bool, results func(it *hidden.Iteration) []byte,
) ([]wire.Edit, bool) {
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
		var open []byte // hidden items whose place is in front of the next
		for i := range it.Parts {
			p := &it.Parts[i]
			switch {
			case p.Hidden:
				open = rawjson.AppendElement(open, p.Raw)
			case at < end && same(v, &v.Blocks[at], p, says):
				if open != nil {
					edits, open = append(edits, wire.Edit{Block: at, Op: wire.OpBefore, Value: open}), nil
				}
				at++
			}
		}
		if len(it.Hidden()) == 0 {
			continue
		}
		open = rawjson.AppendElement(open, results(it))
		if n < len(its)-1 && at < end {
			edits = append(edits, wire.Edit{Block: at, Op: wire.OpBefore, Value: open})
			continue
		}
		edits = append(edits, wire.Edit{Block: end - 1, Op: wire.OpAfterMessage, Value: open})
		break // the client has nothing of what came after
	}
	return edits, at == end
}

// same reports whether a block of the client is an item of an answer.
func same(v *wire.View, b *wire.Block, p *hidden.Part, says func(*wire.View, *wire.Block, gjson.Result) bool) bool {
	if p.Kind == wire.KindOther {
		return b.Kind == wire.KindOther || b.Kind == wire.KindServerTool
	}
	if b.Kind != p.Kind {
		return false
	}
	switch b.Kind {
	case wire.KindToolUse:
		return v.Text(b.ID) == p.ID
	case wire.KindText, wire.KindReasoning:
		return says(v, b, gjson.ParseBytes(p.Raw))
	}
	return true
}

// SameText reports whether a block holds a text, whatever blanks are around it.
func SameText(v *wire.View, b *wire.Block, text string) bool {
	return strings.TrimSpace(gjson.ParseBytes(v.Bytes(b.Body)).Str) == strings.TrimSpace(text)
}

// SameReasoning reports whether a block is the reasoning of an item: by what the provider has sealed, which is
// in the member of that name, or else by its summary.
func SameReasoning(v *wire.View, b *wire.Block, item gjson.Result, sealed string) bool {
	mine := gjson.ParseBytes(v.Bytes(b.Span))
	if s := item.Get(sealed).Str; s != "" {
		return mine.Get(sealed).Str == s
	}
	return mine.Get("summary.#.text").Raw == item.Get("summary.#.text").Raw
}
