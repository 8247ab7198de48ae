// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openaichat

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/intercept"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Continuation implements [intercept.Codec].
func (Codec) Continuation(it *intercept.Iteration) []byte {
	content := []byte("null")
	members := []any{"role", "assistant", "content", nil}
	var calls []byte
	for i := range it.Parts {
		switch p := &it.Parts[i]; p.Kind {
		case wire.KindText:
			content = p.Raw
		case wire.KindThinking:
			members = append(members, p.Name, p.Raw)
		default:
			calls = rawjson.AppendElement(calls, p.Raw)
		}
	}
	members[3] = content
	message := rawjson.Object(append(members, "tool_calls", rawjson.Array(calls))...)
	return rawjson.AppendElement(message, toolResults(it))
}

func toolResults(it *intercept.Iteration) []byte {
	var out []byte
	for _, p := range it.Intercepted() {
		out = rawjson.AppendElement(out, rawjson.Object("role", "tool", "tool_call_id", p.ID, "content", p.Result))
	}
	return out
}

// Reinsert implements [intercept.Codec].
func (Codec) Reinsert(v *wire.View, message int, its []intercept.Iteration) ([]wire.Edit, bool) {
	// The client's message contains the texts of all iterations in sequence. The earlier iterations
	// become messages before it, and their texts are removed from it.
	msg := &v.Messages[message]
	if msg.First == msg.End {
		return nil, false
	}
	last := &its[len(its)-1]
	var edits []wire.Edit
	var before []byte
	for n := range its[:len(its)-1] {
		if n > 0 {
			before = append(before, ',')
		}
		before = append(before, Codec{}.Continuation(&its[n])...)
	}
	if before != nil {
		edits = append(edits, wire.Edit{Block: int(msg.First), Op: wire.OpBeforeMessage, Value: before})
	}
	tail := 0
	for i := int(msg.First); i < int(msg.End); i++ {
		b := &v.Blocks[i]
		switch b.Kind {
		case wire.KindText, wire.KindThinking:
			if tail > 0 {
				return nil, false
			}
			e, ok := lastOnly(v, i, its)
			if !ok {
				return nil, false
			}
			edits = append(edits, e...)
		case wire.KindToolUse, wire.KindProgram:
			tail++
		}
	}
	more, ok := amongCalls(v, msg, last)
	return append(edits, more...), ok
}

// lastOnly cuts a text of the client's message down to the text of the last iteration.
func lastOnly(v *wire.View, i int, its []intercept.Iteration) ([]wire.Edit, bool) {
	b := &v.Blocks[i]
	all, last := "", ""
	for n := range its {
		last = ""
		for j := range its[n].Parts {
			if p := &its[n].Parts[j]; p.Kind == b.Kind {
				last = gjson.ParseBytes(p.Raw).Str
				all += last
			}
		}
	}
	switch text := gjson.ParseBytes(v.Bytes(b.Body)).Str; {
	case strings.TrimSpace(text) != strings.TrimSpace(all):
		return nil, false
	case strings.TrimSpace(all) == strings.TrimSpace(last):
		return nil, true
	case last != "" || b.Kind == wire.KindText && v.Messages[b.Message].End-v.Messages[b.Message].First == 1:
		return []wire.Edit{{Block: i, Op: wire.OpReplace, Value: rawjson.Quote(last)}}, true
	}
	return []wire.Edit{{Block: i, Op: wire.OpRemove}}, true
}

// amongCalls inserts the intercepted calls of the last iteration, and their results.
func amongCalls(v *wire.View, msg *wire.Message, it *intercept.Iteration) ([]wire.Edit, bool) {
	if len(it.Intercepted()) == 0 {
		return nil, true
	}
	var edits []wire.Edit
	var open [][]byte
	anchor := -1
	for i := range it.Parts {
		p := &it.Parts[i]
		if p.Kind != wire.KindToolUse {
			continue
		}
		if p.Intercepted {
			open = append(open, p.Raw)
			continue
		}
		for j := int(msg.First); j < int(msg.End); j++ {
			if b := &v.Blocks[j]; b.Kind.IsCall() && v.Text(b.ID) == p.ID {
				anchor = j
				for _, raw := range open {
					edits = append(edits, wire.Edit{Block: j, Op: wire.OpBefore, Value: raw})
				}
				open = nil
			}
		}
	}
	if anchor < 0 { // the client has no calls: the intercepted ones need a message of their own
		return []wire.Edit{{
			Block: int(msg.First), Op: wire.OpAfterMessage,
			Value: Codec{}.Continuation(&intercept.Iteration{Parts: interceptedParts(it)}),
		}}, true
	}
	for _, raw := range open {
		edits = append(edits, wire.Edit{Block: anchor, Op: wire.OpAfter, Value: raw})
	}
	return append(edits, wire.Edit{Block: anchor, Op: wire.OpAfterMessage, Value: toolResults(it)}), true
}

func interceptedParts(it *intercept.Iteration) []intercept.Part {
	calls := it.Intercepted()
	out := make([]intercept.Part, 0, len(calls))
	for _, p := range calls {
		out = append(out, *p)
	}
	return out
}
