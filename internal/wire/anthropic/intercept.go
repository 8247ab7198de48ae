// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package anthropic

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/hidden"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// interception intercepts calls in answers of the Messages API.
type interception struct {
	*hidden.Message
	blocks []*openBlock
}

func (r *interception) Next() { r.blocks = nil }

// openBlock is a block of a stream that is open.
type openBlock struct {
	hidden.Entry
	start string
	kind  string
	// What came by deltas: the insides of JSON strings, and the text of input.
	text, thinking, signature, input strings.Builder
	citations                        []byte
}

// DeclareTool implements [hidden.Codec].
func (Codec) DeclareTool(name, description, schema string) []byte {
	return rawjson.Object("name", name, "description", description, "input_schema", []byte(schema))
}

func (r *interception) Failure(kind, message string) []byte {
	return framing.SSE{}.Append(nil, "error", rawjson.Object("type", "error", "error", rawjson.Object("type", kind, "message", message)))
}

func (r *interception) Event(f hidden.Event) {
	switch kind := f.Root.Get("type").Str; kind {
	case "message_start":
		r.Now.Usage = readUsage(wire.Usage{}, f.Root.Get("message.usage"))
		if len(r.Past) == 0 {
			r.ID = strings.Clone(f.Root.Get("message.id").Str)
			r.Pass(f.Event)
		}
	case "content_block_start":
		r.startBlock(f)
	case "content_block_delta", "content_block_stop":
		b := r.block(f.Root.Get("index").Int())
		if b == nil {
			r.showBeyond(f)
			return
		}
		delta := f.Root.Get("delta")
		if kind == "content_block_delta" && r.Keep(len(delta.Raw)) {
			r.Now.Opaque = !b.gather(r.Message, delta) || r.Now.Opaque
		}
		r.show(b, f, delta.Get("partial_json").Str)
		if kind == "content_block_stop" {
			r.stopBlock(b)
		}
	case "message_delta":
		r.Now.StopReason = strings.Clone(f.Root.Get("delta.stop_reason").Str)
		r.Now.Usage = readUsage(r.Now.Usage, f.Root.Get("usage"))
		if r.Now.StopReason == "tool_use" && r.Now.Asks() {
			r.Held, r.Last = true, bytes.Clone(f.Data)
			return
		}
		if len(r.Past) == 0 {
			r.Pass(f.Event)
			return
		}
		r.Put("message_delta", ending(r, f.Root, ""))
	case "message_stop":
		if r.Held {
			return
		}
		r.Ended = true
		r.Pass(f.Event)
	default:
		r.Pass(f.Event)
	}
}

// ending is a message_delta with the usage of all iterations.
func ending(r *interception, root gjson.Result, reason string) []byte {
	with := map[string][]byte{"usage": totalUsage(r, root.Get("usage"))}
	if reason != "" {
		with["delta"] = rawjson.Rewrite(root.Get("delta"), nil, map[string][]byte{"stop_reason": rawjson.Quote(reason)})
	}
	return rawjson.Rewrite(root, []string{"usage"}, with)
}

// totalUsage is the usage of all iterations, with what the last says of how it was served.
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

func (r *interception) Flush() {
	r.Put("message_delta", ending(r, gjson.ParseBytes(r.Last), "end_turn"))
	r.Put("message_stop", []byte(`{"type":"message_stop"}`))
	r.Ended = true
}

func (r *interception) block(index int64) *openBlock {
	for _, b := range r.blocks {
		if b.Index == index {
			return b
		}
	}
	return nil
}

func (r *interception) startBlock(f hidden.Event) {
	start := f.Root.Get("content_block")
	if !r.Keep(hidden.BlockSize + len(start.Raw)) {
		r.showBeyond(f)
		return
	}
	b := &openBlock{start: strings.Clone(start.Raw), kind: strings.Clone(start.Get("type").Str)}
	b.text.WriteString(rawjson.Inner(start.Get("text")))
	b.thinking.WriteString(rawjson.Inner(start.Get("thinking")))
	b.signature.WriteString(rawjson.Inner(start.Get("signature")))
	hides, watches, input := false, false, start.Get("input").Raw
	if b.kind == "tool_use" {
		name := start.Get("name").Str
		hides = r.Options.Hide(name)
		watches = !hides && r.Options.Watch(name)
	}
	if input == "{}" { // it comes by deltas
		input = ""
	}
	b.Entry = r.Open(f.Root.Get("index").Int(), hides, watches)
	r.blocks = append(r.blocks, b)
	r.show(b, f, input)
}

// Index implements [hidden.Interception].
func (r *interception) Index(f hidden.Event) (int64, bool) {
	index := f.Root.Get("index")
	return index.Int(), index.Exists()
}

// showBeyond hands on an event of a block that is not remembered.
func (r *interception) showBeyond(f hidden.Event) {
	if !r.Full || r.Shift() == 0 {
		r.Pass(f.Event)
		return
	}
	r.renumber(f.Root, int(f.Root.Get("index").Int())+r.Shift())
}

// show hands an event of a block on, which adds to the input of a call.
func (r *interception) show(b *openBlock, f hidden.Event, input string) {
	r.Show(&b.Entry, f, input, b.teller(r))
}

// teller returns what hands events of a block on, under the client's index.
func (b *openBlock) teller(r *interception) func(hidden.Event) {
	return func(f hidden.Event) {
		if int64(b.Client) == b.Index {
			r.Pass(f.Event)
			return
		}
		r.renumber(f.Root, b.Client)
	}
}

func (r *interception) renumber(root gjson.Result, index int) {
	r.Put(root.Get("type").Str, rawjson.Rewrite(root, nil, map[string][]byte{"index": strconv.AppendInt(nil, int64(index), 10)}))
}

// gather keeps what a delta adds to a block. It reports false for a delta that
// it does not know.
func (b *openBlock) gather(m *hidden.Message, d gjson.Result) bool {
	switch d.Get("type").Str {
	case "text_delta":
		m.Write(&b.text, d.Get("text"))
	case "thinking_delta":
		m.Write(&b.thinking, d.Get("thinking"))
	case "signature_delta":
		m.Write(&b.signature, d.Get("signature"))
	case "input_json_delta":
		b.input.WriteString(d.Get("partial_json").Str)
	case "citations_delta":
		b.citations = rawjson.AppendElement(b.citations, []byte(d.Get("citation").Raw))
	default:
		return false
	}
	return true
}

// stopBlock makes a part of a block that is complete.
func (r *interception) stopBlock(b *openBlock) {
	if r.Full {
		return
	}
	p := b.part()
	r.Judge(&b.Entry, &p, b.teller(r))
	if !rawjson.Valid(p.Arguments) || b.Hidden && !gjson.Parse(p.Arguments).IsObject() {
		b.input.Reset() // what is no object cannot be repeated
		p.Raw = b.part().Raw
	}
	if p.Raw != nil && r.Keep(len(p.Raw)+len(p.Arguments)) {
		r.Now.Parts = append(r.Now.Parts, p)
	}
	b.forget()
}

func (r *interception) Spill() {
	for _, b := range r.blocks {
		r.Release(&b.Entry, b.teller(r))
		b.forget()
	}
}

// forget drops what came by deltas.
func (b *openBlock) forget() {
	*b = openBlock{Entry: b.Entry, start: b.start, kind: b.kind}
}

// part is a complete block as it stands in a request; its Raw is nil if the
// block says nothing.
func (b *openBlock) part() hidden.Part {
	start := gjson.Parse(b.start)
	with := map[string][]byte{}
	var order []string
	set := func(key string, value []byte) { with[key], order = value, append(order, key) }
	switch b.kind {
	case "text":
		if strings.TrimSpace(gjson.Parse(`"`+b.text.String()+`"`).Str) == "" {
			return hidden.Part{}
		}
		set("text", rawjson.Quoted(b.text.String()))
		set("citations", nil)
		if len(b.citations) > 0 {
			with["citations"] = rawjson.Array(b.citations)
		}
	case "thinking":
		set("thinking", rawjson.Quoted(b.thinking.String()))
		set("signature", rawjson.Quoted(b.signature.String()))
	default:
		if b.input.Len() > 0 {
			set("input", []byte(b.input.String()))
		}
	}
	p := partOf(start)
	p.Raw = rawjson.Rewrite(start, order, with)
	if b.input.Len() > 0 {
		p.Arguments = b.input.String()
	}
	return p
}

func partOf(block gjson.Result) hidden.Part {
	p := hidden.Part{Kind: wire.KindOther, Raw: []byte(block.Raw)}
	switch block.Get("type").Str {
	case "text":
		p.Kind = wire.KindText
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

func (r *interception) Document(body []byte) bool {
	root := gjson.ParseBytes(body)
	content := root.Get("content")
	if !content.IsArray() {
		return false
	}
	if len(r.Past) == 0 {
		r.ID = root.Get("id").Str
	}
	r.Now.StopReason = root.Get("stop_reason").Str
	r.Now.Usage = readUsage(wire.Usage{}, root.Get("usage"))
	content.ForEach(func(_, block gjson.Result) bool {
		p := partOf(block)
		if p.Kind == wire.KindToolUse {
			p.Hidden = r.Options.Hide(p.Name) || r.Options.Watch(p.Name) && r.Copies(p.Arguments)
		}
		if p.Kind != wire.KindText || strings.TrimSpace(block.Get("text").Str) != "" {
			r.Now.Parts = append(r.Now.Parts, p)
		}
		return true
	})
	return true
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

// Continuation implements [hidden.Codec].
func (Codec) Continuation(it *hidden.Iteration) []byte {
	message := rawjson.Object("role", "assistant", "content", rawjson.Array(it.Raw()))
	return rawjson.AppendElement(message, toolResults(it))
}

func toolResults(it *hidden.Iteration) []byte {
	var results []byte
	for _, p := range it.Hidden() {
		results = rawjson.AppendElement(results, toolResult(p))
	}
	return rawjson.Object("role", "user", "content", rawjson.Array(results))
}

func toolResult(p *hidden.Part) []byte {
	var failed any
	if p.Failed {
		failed = true
	}
	return rawjson.Object("type", "tool_result", "tool_use_id", p.ID, "content", p.Result, "is_error", failed)
}

// Reinsert goes through the client's message and the parts of the iterations side
// by side. A part that the client has dropped is skipped; a block that is none
// of the parts ends it.
func (Codec) Reinsert(v *wire.View, message int, its []hidden.Iteration) ([]wire.Edit, bool) {
	msg := &v.Messages[message]
	at, end := int(msg.First), int(msg.End)
	if at == end {
		return nil, false
	}
	var edits []wire.Edit
	for n := range its {
		it := &its[n]
		var open [][]byte // hidden calls whose place is in front of the next block
		for i := range it.Parts {
			p := &it.Parts[i]
			if p.Hidden {
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
		hidden := it.Hidden()
		switch {
		case !lastOne && at < end:
			for _, raw := range open {
				edits = append(edits, wire.Edit{Block: at, Op: wire.OpBefore, Value: raw})
			}
			edits = append(edits, wire.Edit{Block: at, Op: wire.OpSplit, Value: toolResults(it)})
		case len(hidden) > 0 && at == end:
			for _, raw := range open {
				edits = append(edits, wire.Edit{Block: end - 1, Op: wire.OpAfter, Value: raw})
			}
			more, ok := answered(v, message, it)
			if !ok {
				return nil, false
			}
			edits = append(edits, more...)
			if !lastOne { // the client has nothing of what came after
				return edits, true
			}
		}
	}
	return edits, at == end
}

// answered puts the results of hidden calls in front of what the client
// answers to the message.
func answered(v *wire.View, message int, it *hidden.Iteration) ([]wire.Edit, bool) {
	if message+1 >= len(v.Messages) || v.Messages[message+1].Role != wire.RoleUser || v.Messages[message+1].First == v.Messages[message+1].End {
		return nil, false
	}
	first := int(v.Messages[message+1].First)
	var edits []wire.Edit
	for _, p := range it.Hidden() {
		edits = append(edits, wire.Edit{Block: first, Op: wire.OpBefore, Value: toolResult(p)})
	}
	return edits, true
}

// isPart reports whether a block of the client is a part of an answer.
func isPart(v *wire.View, b *wire.Block, p *hidden.Part) bool {
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
