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

package wire

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// anthropicRelay intercepts calls in answers of the Messages API.
type anthropicRelay struct {
	*clientMessage
	blocks []*relayBlock
}

func (r *anthropicRelay) next() { r.blocks = nil }

// relayBlock is a block of a Messages stream that is open, or an item of a
// Responses stream.
type relayBlock struct {
	index  int64
	client int  // the client's index, -1 as long as the client has not got it
	hidden bool // answered on the way
	held   bool // to be judged
	start  string
	kind   string
	// What came by deltas: the insides of JSON strings, and the text of input.
	text, thinking, signature, input strings.Builder
	citations                        []byte
	frames                           [][]byte // data of the events kept back
}

func (anthropicCodec) DeclareTool(name, description, schema string) []byte {
	out := append([]byte(`{"name":`), quoteText(name)...)
	out = append(append(out, `,"description":`...), quoteText(description)...)
	return append(append(append(out, `,"input_schema":`...), schema...), '}')
}

func (r *anthropicRelay) failure(kind, message string) []byte {
	out := append([]byte(`event: error`+"\n"+`data: {"type":"error","error":{"type":`), quoteText(kind)...)
	out = append(append(out, `,"message":`...), quoteText(message)...)
	return append(out, "}}\n\n"...)
}

func (r *anthropicRelay) frame(f frameOf) {
	switch kind := f.root.Get("type").Str; kind {
	case "message_start":
		r.now.Usage = anthropicBuckets(f.root.Get("message.usage"), Usage{})
		if len(r.past) == 0 {
			r.id = strings.Clone(f.root.Get("message.id").Str)
			r.pass(f.Frame)
		}
	case "content_block_start":
		r.startBlock(f)
	case "content_block_delta", "content_block_stop":
		b := r.block(f.root.Get("index").Int())
		if b == nil {
			r.showBeyond(f)
			return
		}
		if delta := f.root.Get("delta"); kind == "content_block_delta" && r.keep(len(delta.Raw)) {
			r.now.Opaque = !b.gather(delta) || r.now.Opaque
		}
		r.show(b, f)
		if kind == "content_block_stop" {
			r.stopBlock(b)
		}
	case "message_delta":
		r.now.StopReason = strings.Clone(f.root.Get("delta.stop_reason").Str)
		r.now.Usage = anthropicBuckets(f.root.Get("usage"), r.now.Usage)
		if r.now.StopReason == "tool_use" && r.now.asks() {
			r.held, r.end = true, bytes.Clone(f.Data)
			return
		}
		if len(r.past) == 0 {
			r.pass(f.Frame)
			return
		}
		r.put("message_delta", anthropicEnd(r, f.root, ""))
	case "message_stop":
		if r.held {
			return
		}
		r.ended = true
		r.pass(f.Frame)
	default:
		r.pass(f.Frame)
	}
}

// anthropicEnd is a message_delta with the usage of all iterations.
func anthropicEnd(r *anthropicRelay, root gjson.Result, reason string) []byte {
	with := map[string][]byte{"usage": anthropicSum(r)}
	if reason != "" {
		with["delta"] = object(root.Get("delta"), nil, map[string][]byte{"stop_reason": quoteText(reason)})
	}
	return object(root, []string{"usage"}, with)
}

// anthropicSum is the usage of all iterations, each of them on record, or of the last.
func anthropicSum(r *anthropicRelay) []byte {
	out := append([]byte{'{'}, anthropicCounts(r.usage())...)
	if r.o.LastUsage {
		return append(out, '}')
	}
	out = append(out, `,"iterations":[`...)
	for i, it := range r.Iterations() {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, `{"type":"message",`...), anthropicCounts(it.Usage)...), '}')
	}
	return append(out, "]}"...)
}

func anthropicCounts(u Usage) []byte {
	out := appendCount(nil, "input_tokens", u.Uncached)
	out = appendCount(out, "cache_creation_input_tokens", u.Write5m+u.Write1h)
	out = appendCount(out, "cache_read_input_tokens", u.Read)
	out = append(out, `"cache_creation":{`...)
	out = appendCount(out, "ephemeral_5m_input_tokens", u.Write5m)
	out = appendCount(out, "ephemeral_1h_input_tokens", u.Write1h)
	out = append(out[:len(out)-1], `},`...)
	return bytes.TrimSuffix(appendCount(out, "output_tokens", u.Output), []byte(","))
}

func (r *anthropicRelay) flush() {
	r.put("message_delta", anthropicEnd(r, gjson.ParseBytes(r.end), "end_turn"))
	r.put("message_stop", []byte(`{"type":"message_stop"}`))
	r.ended = true
}

func (r *anthropicRelay) block(index int64) *relayBlock {
	for _, b := range r.blocks {
		if b.index == index {
			return b
		}
	}
	return nil
}

func (r *anthropicRelay) startBlock(f frameOf) {
	start := f.root.Get("content_block")
	if !r.keep(blockSize + len(start.Raw)) {
		r.showBeyond(f)
		return
	}
	r.begun++
	b := &relayBlock{index: f.root.Get("index").Int(), client: -1, start: strings.Clone(start.Raw), kind: strings.Clone(start.Get("type").Str)}
	b.text.WriteString(inner(start.Get("text")))
	b.thinking.WriteString(inner(start.Get("thinking")))
	b.signature.WriteString(inner(start.Get("signature")))
	if b.kind == "tool_use" {
		name := start.Get("name").Str
		b.hidden = r.o.Hide(name)
		b.held = !b.hidden && r.o.Hold(name)
	}
	r.blocks = append(r.blocks, b)
	if !b.hidden && !b.held {
		b.client = r.visible
		r.visible++
	}
	r.show(b, f)
}

// showBeyond hands on an event of a block that is not remembered.
func (r *anthropicRelay) showBeyond(f frameOf) {
	if !r.full || r.shift() == 0 {
		r.pass(f.Frame)
		return
	}
	r.renumber(f.Data, int(f.root.Get("index").Int())+r.shift())
}

// show hands an event of a block on, under the client's index.
func (r *anthropicRelay) show(b *relayBlock, f frameOf) {
	switch {
	case b.hidden:
	case b.held:
		r.keep(len(f.Data))
		b.frames = append(b.frames, bytes.Clone(f.Data))
	case int64(b.client) == b.index:
		r.pass(f.Frame)
	default:
		r.renumber(f.Data, b.client)
	}
}

func (r *anthropicRelay) renumber(data []byte, index int) {
	root := gjson.ParseBytes(data)
	r.put(root.Get("type").Str, object(root, nil, map[string][]byte{"index": strconv.AppendInt(nil, int64(index), 10)}))
}

// gather keeps what a delta adds to a block. It reports false for a delta that
// it does not know.
func (b *relayBlock) gather(d gjson.Result) bool {
	switch d.Get("type").Str {
	case "text_delta":
		b.text.WriteString(inner(d.Get("text")))
	case "thinking_delta":
		b.thinking.WriteString(inner(d.Get("thinking")))
	case "signature_delta":
		b.signature.WriteString(inner(d.Get("signature")))
	case "input_json_delta":
		b.input.WriteString(d.Get("partial_json").Str)
	case "citations_delta":
		if len(b.citations) > 0 {
			b.citations = append(b.citations, ',')
		}
		b.citations = append(b.citations, d.Get("citation").Raw...)
	default:
		return false
	}
	return true
}

// stopBlock makes a part of a block that is complete.
func (r *anthropicRelay) stopBlock(b *relayBlock) {
	if r.full {
		return
	}
	p := b.part()
	if b.held {
		b.held = false
		if b.hidden = r.o.Judge(p.Name, p.Arguments); !b.hidden {
			r.release(b)
		}
		b.frames = nil
	}
	p.Hidden = b.hidden
	if !Valid(p.Arguments) || b.hidden && !gjson.Parse(p.Arguments).IsObject() {
		b.input.Reset() // what is no object cannot be repeated
		p.Raw = b.part().Raw
	}
	if p.Raw != nil && r.keep(len(p.Raw)+len(p.Arguments)) {
		r.now.Parts = append(r.now.Parts, p)
	}
	b.forget()
}

// release shows the client a block that was kept back.
func (r *anthropicRelay) release(b *relayBlock) {
	b.client = r.visible
	r.visible++
	for _, data := range b.frames {
		r.renumber(data, b.client)
	}
}

func (r *anthropicRelay) spill() {
	for _, b := range r.blocks {
		if b.held {
			b.held = false
			r.release(b)
		}
		b.forget()
	}
}

// forget drops what came by deltas.
func (b *relayBlock) forget() {
	*b = relayBlock{index: b.index, client: b.client, hidden: b.hidden, held: b.held, start: b.start, kind: b.kind}
}

// part is a complete block as it stands in a request; its Raw is nil if the
// block says nothing.
func (b *relayBlock) part() Part {
	start := gjson.Parse(b.start)
	quoted := func(s *strings.Builder) []byte { return []byte(`"` + s.String() + `"`) }
	with := map[string][]byte{}
	var order []string
	set := func(key string, value []byte) { with[key], order = value, append(order, key) }
	switch b.kind {
	case "text":
		if strings.TrimSpace(gjson.Parse(`"`+b.text.String()+`"`).Str) == "" {
			return Part{}
		}
		set("text", quoted(&b.text))
		set("citations", nil)
		if len(b.citations) > 0 {
			with["citations"] = append(append([]byte{'['}, b.citations...), ']')
		}
	case "thinking":
		set("thinking", quoted(&b.thinking))
		set("signature", quoted(&b.signature))
	default:
		if b.input.Len() > 0 {
			set("input", []byte(b.input.String()))
		}
	}
	p := anthropicPart(start)
	p.Raw = object(start, order, with)
	if b.input.Len() > 0 {
		p.Arguments = b.input.String()
	}
	return p
}

func anthropicPart(block gjson.Result) Part {
	p := Part{Kind: KindOther, Raw: []byte(block.Raw)}
	switch block.Get("type").Str {
	case "text":
		p.Kind = KindText
	case "thinking":
		p.Kind = KindThinking
	case "redacted_thinking":
		p.Kind = KindRedactedThinking
	case "tool_use":
		p.Kind = KindToolUse
		p.ID, p.Name = strings.Clone(block.Get("id").Str), strings.Clone(block.Get("name").Str)
		p.Arguments = strings.Clone(block.Get("input").Raw)
	}
	return p
}

func (r *anthropicRelay) document(body []byte) bool {
	root := gjson.ParseBytes(body)
	content := root.Get("content")
	if !content.IsArray() {
		return false
	}
	if len(r.past) == 0 {
		r.id = root.Get("id").Str
	}
	r.now.StopReason = root.Get("stop_reason").Str
	r.now.Usage = anthropicBuckets(root.Get("usage"), Usage{})
	content.ForEach(func(_, block gjson.Result) bool {
		p := anthropicPart(block)
		if p.Kind == KindToolUse {
			p.Hidden = r.o.Hide(p.Name) || r.o.Hold(p.Name) && r.o.Judge(p.Name, p.Arguments)
		}
		if p.Kind != KindText || strings.TrimSpace(block.Get("text").Str) != "" {
			r.now.Parts = append(r.now.Parts, p)
		}
		return true
	})
	return true
}

func (r *anthropicRelay) join(last []byte) []byte {
	content := []byte{'['}
	for _, it := range r.Iterations() {
		for i := range it.Parts {
			if it.Parts[i].Hidden {
				continue
			}
			if len(content) > 1 {
				content = append(content, ',')
			}
			content = append(content, it.Parts[i].Raw...)
		}
	}
	root := gjson.ParseBytes(last)
	with := map[string][]byte{"content": append(content, ']'), "id": quoteText(r.id)}
	if len(r.past) > 0 {
		with["usage"] = anthropicSum(r)
	}
	if r.now.asks() {
		with["stop_reason"] = quoteText("end_turn")
	}
	return object(root, nil, with)
}

func (anthropicCodec) Continuation(it *Iteration) []byte {
	out := []byte(`{"role":"assistant","content":[`)
	for i := range it.Parts {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, it.Parts[i].Raw...)
	}
	return append(append(out, `]},`...), anthropicResults(it)...)
}

func anthropicResults(it *Iteration) []byte {
	out := []byte(`{"role":"user","content":[`)
	for i, p := range it.Hidden() {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, anthropicResult(p)...)
	}
	return append(out, `]}`...)
}

func anthropicResult(p *Part) []byte {
	out := append([]byte(`{"type":"tool_result","tool_use_id":`), quoteText(p.ID)...)
	out = append(append(out, `,"content":`...), quoteText(p.Result)...)
	if p.Failed {
		out = append(out, `,"is_error":true`...)
	}
	return append(out, '}')
}

// weave goes through the client's message and the parts of the iterations side
// by side. A part that the client has dropped is skipped; a block that is none
// of the parts ends it.
func (anthropicCodec) Weave(v *View, message int, its []Iteration) ([]Edit, bool) {
	msg := &v.Messages[message]
	at, end := int(msg.First), int(msg.End)
	if at == end {
		return nil, false
	}
	var edits []Edit
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
					edits = append(edits, Edit{Block: at, Op: OpBefore, Value: raw})
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
				edits = append(edits, Edit{Block: at, Op: OpBefore, Value: raw})
			}
			edits = append(edits, Edit{Block: at, Op: OpSplit, Value: anthropicResults(it)})
		case len(hidden) > 0 && at == end:
			for _, raw := range open {
				edits = append(edits, Edit{Block: end - 1, Op: OpAfter, Value: raw})
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
func answered(v *View, message int, it *Iteration) ([]Edit, bool) {
	if message+1 >= len(v.Messages) || v.Messages[message+1].Role != RoleUser || v.Messages[message+1].First == v.Messages[message+1].End {
		return nil, false
	}
	first := int(v.Messages[message+1].First)
	var edits []Edit
	for _, p := range it.Hidden() {
		edits = append(edits, Edit{Block: first, Op: OpBefore, Value: anthropicResult(p)})
	}
	return edits, true
}

// isPart tells whether a block of the client is a part of an answer.
func isPart(v *View, b *Block, p *Part) bool {
	if p.Kind == KindOther {
		return b.Kind == KindOther || b.Kind > KindToolResult
	}
	if b.Kind != p.Kind {
		return false
	}
	part := gjson.ParseBytes(p.Raw)
	switch b.Kind {
	case KindToolUse:
		return v.Text(b.ID) == p.ID
	case KindText:
		return strings.TrimSpace(gjson.ParseBytes(v.Bytes(b.Body)).Str) == strings.TrimSpace(part.Get("text").Str)
	case KindThinking:
		return gjson.GetBytes(v.Bytes(b.Span), "signature").Str == part.Get("signature").Str
	}
	return true
}
