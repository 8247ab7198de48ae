// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package anthropic

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/intercept"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// interception intercepts calls in answers of the Messages API.
type interception struct{ intercept.Numbered }

// DeclareTool implements [intercept.Codec].
func (Codec) DeclareTool(name, description, schema string) []byte {
	return rawjson.Object("name", name, "description", description, "input_schema", []byte(schema))
}

func (r *interception) Failure(kind, message string) []byte {
	return framing.SSE{}.Append(nil, "error",
		rawjson.Object("type", "error", "error", rawjson.Object("type", kind, "message", message)))
}

// Tell implements [intercept.Interception].
func (r *interception) Tell(f intercept.Event, e *intercept.Entry) { r.Renumber(f, e, nil) }

// end returns the last message_delta of a message that consists of several answers, else nil.
func (r *interception) end(last intercept.Event) []byte {
	if len(r.Past) == 0 {
		return nil
	}
	return ending(r, last.Root, "")
}

// ending returns a message_delta with the usage of all iterations.
func ending(r *interception, root gjson.Result, reason string) []byte {
	with := map[string][]byte{"usage": totalUsage(r, root.Get("usage"))}
	if reason != "" {
		with["delta"] = rawjson.Rewrite(root.Get("delta"), nil, map[string][]byte{"stop_reason": rawjson.Quote(reason)})
	}
	return rawjson.Rewrite(root, []string{"usage"}, with)
}

// totalUsage returns the usage of all iterations, with the service members of the last one.
func totalUsage(r *interception, last gjson.Result) []byte {
	out := r.TotalUsage(`"type":"message",`, allCounts)
	out = out[:len(out)-1]
	for _, name := range [...]string{"service_tier", "speed", "inference_geo"} {
		if v := last.Get(name); v.Exists() {
			out = append(append(append(out, `,"`...), name...), `":`...)
			out = append(out, v.Raw...)
		}
	}
	return append(out, '}')
}

func (r *interception) Flush() string {
	r.Put("message_delta", ending(r, gjson.ParseBytes(r.Last), "end_turn"))
	r.Put("message_stop", []byte(`{"type":"message_stop"}`))
	return "end_turn"
}

// Part implements [intercept.Interception].
func (r *interception) Part(e *intercept.Entry) intercept.Part {
	if e.Whole != "" {
		return partOf(gjson.Parse(e.Whole))
	}
	start := gjson.Parse(e.Raw)
	with := map[string][]byte{}
	var order []string
	set := func(key string, value []byte) { with[key], order = value, append(order, key) }
	input := e.Input()
	switch start.Get("type").Str {
	case "text":
		set("text", rawjson.Quoted(e.Text.String()))
		set("citations", nil)
		var citations []byte
		for _, piece := range e.Pieces {
			citations = rawjson.AppendElement(citations, []byte(gjson.Get(piece, "citation").Raw))
		}
		if citations != nil {
			with["citations"] = rawjson.Array(citations)
		}
	case "thinking":
		set("thinking", rawjson.Quoted(e.Text.String()))
		set("signature", rawjson.Quote(e.Signature.String()))
	default:
		// A request takes only an object as input.
		if e.Arguments.Len() > 0 && rawjson.ValidObject(input) {
			set("input", []byte(input))
		}
	}
	p := partOf(gjson.Parse(rawjson.View(rawjson.Rewrite(start, order, with))))
	if p.Kind.IsCall() {
		p.Arguments = input
	}
	return p
}

// partOf returns a block of an answer in its form in a request.
func partOf(block gjson.Result) intercept.Part {
	p := intercept.Part{Kind: wire.KindOther, Raw: []byte(block.Raw)}
	switch block.Get("type").Str {
	case "text":
		if p.Kind = wire.KindText; strings.TrimSpace(block.Get("text").Str) == "" {
			p.Raw = nil // the API refuses blank text
		}
	case "thinking":
		p.Kind = wire.KindThinking
	case "redacted_thinking":
		p.Kind = wire.KindRedactedThinking
	case "tool_use":
		p.Kind = wire.KindToolUse
		p.ID, p.Name = strings.Clone(block.Get("id").Str), strings.Clone(block.Get("name").Str)
		p.Arguments = strings.Clone(block.Get("input").Raw)
		if wire.IsProgram(block.Get("caller")) {
			p.Kind = wire.KindProgram
		}
	}
	return p
}

func (r *interception) Join(last []byte) []byte {
	root := gjson.ParseBytes(last)
	with := map[string][]byte{"content": rawjson.Array(r.Visibles()), "id": rawjson.Quote(r.ID)}
	if len(r.Past) > 0 {
		with["usage"] = totalUsage(r, root.Get("usage"))
	}
	if r.Now.Asks() {
		with["stop_reason"] = rawjson.Quote("end_turn")
	}
	return rawjson.Rewrite(root, nil, with)
}

// Continuation implements [intercept.Codec].
func (Codec) Continuation(it *intercept.Iteration) []byte {
	message := rawjson.Object("role", "assistant", "content", rawjson.Array(it.Raw()))
	return rawjson.AppendElement(message, toolResults(it))
}

func toolResults(it *intercept.Iteration) []byte {
	var results []byte
	for _, p := range it.Intercepted() {
		results = rawjson.AppendElement(results, toolResult(p))
	}
	return rawjson.Object("role", "user", "content", rawjson.Array(results))
}

func toolResult(p *intercept.Part) []byte {
	var failed any
	if p.Failed {
		failed = true
	}
	return rawjson.Object("type", "tool_result", "tool_use_id", p.ID, "content", p.Result, "is_error", failed)
}

// Reinsert implements [intercept.Codec]. It walks the client's message and the parts of the iterations
// side by side. A part that the client dropped is skipped. A block that matches no part makes
// Reinsert report false.
func (Codec) Reinsert(v *wire.View, message int, its []intercept.Iteration) ([]wire.Edit, bool) {
	msg := &v.Messages[message]
	at, end := int(msg.First), int(msg.End)
	if at == end {
		return nil, false
	}
	var edits []wire.Edit
	for n := range its {
		it := &its[n]
		var open [][]byte // intercepted calls to insert before the next block
		for i := range it.Parts {
			p := &it.Parts[i]
			if p.Intercepted {
				open = append(open, p.Raw)
				continue
			}
			if at < end && isPart(v, &v.Blocks[at], p) {
				for _, raw := range open {
					edits = append(edits, wire.Edit{Block: at, Op: wire.OpBefore, Value: raw})
				}
				open = nil
				at++
			}
		}
		lastOne := n == len(its)-1
		intercepted := it.Intercepted()
		switch {
		case !lastOne && at < end:
			for _, raw := range open {
				edits = append(edits, wire.Edit{Block: at, Op: wire.OpBefore, Value: raw})
			}
			edits = append(edits, wire.Edit{Block: at, Op: wire.OpSplit, Value: toolResults(it)})
		case len(intercepted) > 0 && at == end:
			for _, raw := range open {
				edits = append(edits, wire.Edit{Block: end - 1, Op: wire.OpAfter, Value: raw})
			}
			more, ok := answered(v, message, it)
			if !ok {
				return nil, false
			}
			edits = append(edits, more...)
			if !lastOne { // the client has no blocks of later iterations
				return edits, true
			}
		}
	}
	return edits, at == end
}

// answered inserts the results of intercepted calls at the start of the next user message.
func answered(v *wire.View, message int, it *intercept.Iteration) ([]wire.Edit, bool) {
	if message+1 >= len(v.Messages) || v.Messages[message+1].Role != wire.RoleUser ||
		v.Messages[message+1].First == v.Messages[message+1].End {
		return nil, false
	}
	first := int(v.Messages[message+1].First)
	var edits []wire.Edit
	for _, p := range it.Intercepted() {
		edits = append(edits, wire.Edit{Block: first, Op: wire.OpBefore, Value: toolResult(p)})
	}
	return edits, true
}

// isPart reports whether the client's block and the part of an answer are the same.
func isPart(v *wire.View, b *wire.Block, p *intercept.Part) bool {
	if p.Kind == wire.KindOther {
		return b.Kind == wire.KindOther || b.Kind > wire.KindToolResult
	}
	if b.Kind != p.Kind {
		return false
	}
	part := gjson.ParseBytes(p.Raw)
	switch b.Kind {
	case wire.KindToolUse, wire.KindProgram:
		return v.Text(b.ID) == p.ID
	case wire.KindText:
		return strings.TrimSpace(gjson.ParseBytes(v.Bytes(b.Body)).Str) == strings.TrimSpace(part.Get("text").Str)
	case wire.KindThinking:
		return gjson.GetBytes(v.Bytes(b.Span), "signature").Str == part.Get("signature").Str
	}
	return true
}
