// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package flat holds what formats share in which a message is a list of items, one for what was said, thought
// or called: the Responses API and the Interactions API.
package flat

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/hidden"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Reinsert is [hidden.Codec.Reinsert]: it goes through the client's items and the parts of the iterations side by
// side. An item that the client has dropped is skipped; one that is none of the
// parts ends it. Reasoning that the client has dropped goes back with the calls behind it, which it did
// not see: the provider wants what it has sealed, or refers to, in front of them.
func Reinsert(v *wire.View, message int, its []hidden.Iteration, f Format) ([]wire.Edit, bool) {
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
		calls := len(it.Hidden())
		var open []byte // hidden items whose place is in front of the next
		for i := range it.Parts {
			p := &it.Parts[i]
			switch {
			case p.Hidden:
				open = rawjson.AppendElement(open, p.Raw)
				calls--
			case at < end && f.same(v, &v.Blocks[at], p):
				if open != nil {
					edits, open = append(edits, wire.Edit{Block: at, Op: wire.OpBefore, Value: open}), nil
				}
				at++
			case calls > 0 && p.Kind == wire.KindReasoning && f.stands(it, p):
				open = rawjson.AppendElement(open, p.Raw)
			}
		}
		if len(it.Hidden()) == 0 {
			continue
		}
		open = rawjson.AppendElement(open, f.Results(it))
		if n < len(its)-1 && at < end {
			edits = append(edits, wire.Edit{Block: at, Op: wire.OpBefore, Value: open})
			continue
		}
		edits = append(edits, wire.Edit{Block: end - 1, Op: wire.OpAfterMessage, Value: open})
		break // the client has nothing of what came after
	}
	return edits, at == end
}

// Format is what is particular to a format.
type Format struct {
	// Sealed is the member of reasoning that the provider has sealed.
	Sealed string
	// Text returns what an item of an answer says.
	Text func(item gjson.Result) string
	// Results returns the results of an iteration's hidden calls.
	Results func(it *hidden.Iteration) []byte
}

// stands reports whether reasoning means something to the provider in another request: it is sealed, or kept there.
func (f Format) stands(it *hidden.Iteration, p *hidden.Part) bool {
	return !it.Stateless || gjson.GetBytes(p.Raw, f.Sealed).Str != ""
}

// same reports whether a block of the client is an item of an answer.
func (f Format) same(v *wire.View, b *wire.Block, p *hidden.Part) bool {
	if p.Kind == wire.KindOther {
		return b.Kind == wire.KindOther || b.Kind == wire.KindServerTool
	}
	if b.Kind != p.Kind {
		return false
	}
	switch b.Kind {
	case wire.KindToolUse, wire.KindProgram:
		return v.Text(b.ID) == p.ID
	case wire.KindText: // whatever blanks are around it
		return strings.TrimSpace(gjson.ParseBytes(v.Bytes(b.Body)).Str) == strings.TrimSpace(f.Text(gjson.ParseBytes(p.Raw)))
	case wire.KindReasoning:
		return f.sameReasoning(gjson.ParseBytes(v.Bytes(b.Span)), gjson.ParseBytes(p.Raw))
	}
	return true
}

// sameReasoning reports whether the client's reasoning is that of an item: by what the provider has sealed, or else by
// its summary.
func (f Format) sameReasoning(mine, item gjson.Result) bool {
	if s := item.Get(f.Sealed).Str; s != "" {
		return mine.Get(f.Sealed).Str == s
	}
	return mine.Get("summary.#.text").Raw == item.Get("summary.#.text").Raw
}
