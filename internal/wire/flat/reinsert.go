// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package flat is shared by the Responses API and the Interactions API. A message there is a flat
// list of items: texts, reasoning and calls.
package flat

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/intercept"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Reinsert is [intercept.Codec.Reinsert]: it walks the client's items and the parts of the iterations
// side by side. A part that the client dropped is skipped. An item that matches no part makes
// Reinsert report false.
func Reinsert(v *wire.View, message int, its []intercept.Iteration, f Format) ([]wire.Edit, bool) {
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
		calls := len(it.Intercepted())
		var open []byte // intercepted items to insert before the next item
		for i := range it.Parts {
			p := &it.Parts[i]
			switch {
			case p.Intercepted:
				open = rawjson.AppendElement(open, p.Raw)
				calls--
			case at < end && f.same(v, &v.Blocks[at], p):
				if open != nil {
					edits, open = append(edits, wire.Edit{Block: at, Op: wire.OpBefore, Value: open}), nil
				}
				at++
			case calls > 0 && p.Kind == wire.KindReasoning && f.stands(it, p):
				// The client dropped the reasoning. The provider expects it before the
				// intercepted calls, which the client has not seen.
				open = rawjson.AppendElement(open, p.Raw)
			}
		}
		if len(it.Intercepted()) == 0 {
			continue
		}
		open = rawjson.AppendElement(open, f.Results(it))
		if n < len(its)-1 && at < end {
			edits = append(edits, wire.Edit{Block: at, Op: wire.OpBefore, Value: open})
			continue
		}
		edits = append(edits, wire.Edit{Block: end - 1, Op: wire.OpAfterMessage, Value: open})
		break // the client has no items of later iterations
	}
	return edits, at == end
}

// Format has the particulars of one format.
type Format struct {
	// Sealed names the member of a reasoning item with encrypted content or a signature.
	Sealed string
	// Text returns the text of an answer item.
	Text func(item gjson.Result) string
	// Results returns the results of an iteration's intercepted calls.
	Results func(it *intercept.Iteration) []byte
}

// stands reports whether the provider can use the reasoning in another request.
func (f Format) stands(it *intercept.Iteration, p *intercept.Part) bool {
	// The provider has stored it, or the item contains it sealed.
	return !it.Stateless || gjson.GetBytes(p.Raw, f.Sealed).Str != ""
}

func (f Format) same(v *wire.View, b *wire.Block, p *intercept.Part) bool {
	if p.Kind == wire.KindOther {
		return b.Kind == wire.KindOther || b.Kind == wire.KindServerTool
	}
	if b.Kind != p.Kind {
		return false
	}
	switch b.Kind {
	case wire.KindToolUse, wire.KindProgram:
		return v.Text(b.ID) == p.ID
	case wire.KindText: // surrounding white space may differ
		return strings.TrimSpace(gjson.ParseBytes(v.Bytes(b.Body)).Str) == strings.TrimSpace(f.Text(gjson.ParseBytes(p.Raw)))
	case wire.KindReasoning:
		return f.sameReasoning(gjson.ParseBytes(v.Bytes(b.Span)), gjson.ParseBytes(p.Raw))
	}
	return true
}

func (f Format) sameReasoning(mine, item gjson.Result) bool {
	if s := item.Get(f.Sealed).Str; s != "" {
		return mine.Get(f.Sealed).Str == s
	}
	// Unsealed reasoning has its summary only.
	return mine.Get("summary.#.text").Raw == item.Get("summary.#.text").Raw
}
