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

// responsesRelay intercepts calls in answers of the Responses API. An answer is a list of
// items, and a request is one too: what was hidden goes between the client's items.
type responsesRelay struct {
	*clientMessage
	items []*relayItem
	head  responsesHead
	// The number of the client's next event, once there was one.
	sequence int64
	numbered bool
}

func (r *responsesRelay) next() { r.items = nil }

// relayItem is an item of a stream.
type relayItem struct {
	index  int64
	client int      // the client's index, -1 as long as the client has not got it
	hidden bool     // answered on the way
	held   bool     // to be judged
	frames [][]byte // data of the events kept back
}

// responsesHead is what the first event of a stream says of the answer.
type responsesHead struct{ id, created, model string }

func (responsesCodec) DeclareTool(name, description, schema string) []byte {
	out := append([]byte(`{"type":"function","name":`), quoteText(name)...)
	out = append(append(out, `,"description":`...), quoteText(description)...)
	return append(append(append(out, `,"parameters":`...), schema...), `,"strict":false}`...)
}

func (r *responsesRelay) failure(kind, message string) []byte {
	if kind == "api_error" || kind == "timeout_error" {
		kind = "server_error"
	}
	out := append([]byte("event: response.failed\n"+`data: {"type":"response.failed","sequence_number":`), strconv.AppendInt(nil, r.sequence, 10)...)
	out = append(out, `,"response":{"object":"response","status":"failed"`...)
	for _, m := range [...]struct{ key, raw string }{{"id", r.head.id}, {"created_at", r.head.created}, {"model", r.head.model}} {
		if m.raw != "" {
			out = append(append(append(append(out, `,"`...), m.key...), `":`...), m.raw...)
		}
	}
	out = append(append(out, `,"error":{"code":`...), quoteText(kind)...)
	out = append(append(out, `,"message":`...), quoteText(message)...)
	return append(out, "},\"incomplete_details\":null,\"output\":[],\"usage\":null}}\n\n"...)
}

func (r *responsesRelay) frame(f frameOf) {
	if !f.root.Exists() { // [DONE], of some servers
		if !r.held {
			r.pass(f.Frame)
		}
		return
	}
	kind := f.root.Get("type").Str
	switch kind {
	case "response.created", "response.in_progress", "response.queued":
		if len(r.past) > 0 {
			return
		}
		if response := f.root.Get("response"); r.head.id == "" {
			r.head = responsesHead{
				strings.Clone(response.Get("id").Raw), strings.Clone(response.Get("created_at").Raw), strings.Clone(response.Get("model").Raw),
			}
		}
		r.tell(f, nil)
	case "response.output_item.added":
		r.showItem(r.openItem(f.root), f)
	case "response.output_item.done":
		b := r.item(f.root.Get("output_index").Int())
		if b == nil {
			b = r.openItem(f.root)
		}
		r.showItem(b, f)
		if !r.full {
			r.closeItem(b, f.root.Get("item"))
		}
	case "response.completed", "response.incomplete":
		r.last(f, kind)
	default:
		b := (*relayItem)(nil)
		if index := f.root.Get("output_index"); index.Exists() {
			b = r.item(index.Int())
		}
		r.showItem(b, f)
	}
}

func (r *responsesRelay) item(index int64) *relayItem {
	for _, b := range r.items {
		if b.index == index {
			return b
		}
	}
	return nil
}

// openItem begins an item of the output. Calls that are to be judged are known
// by their type: those whose results are texts.
func (r *responsesRelay) openItem(root gjson.Result) *relayItem {
	if !r.keep(blockSize) {
		return nil
	}
	r.begun++
	item := root.Get("item")
	b := &relayItem{index: root.Get("output_index").Int(), client: -1}
	b.hidden, b.held = r.entry(item)
	if !b.hidden && !b.held {
		b.client = r.visible
		r.visible++
	}
	r.items = append(r.items, b)
	return b
}

func (r *responsesRelay) entry(item gjson.Result) (hidden, held bool) {
	name := item.Get("name").Str
	switch item.Get("type").Str {
	case "function_call":
		hidden = r.o.Hide(name)
		return hidden, !hidden && r.o.Hold(name)
	case "custom_tool_call":
		return false, r.o.Hold(name)
	case "local_shell_call", "shell_call", "apply_patch_call":
		return false, r.o.Hold(strings.TrimSuffix(item.Get("type").Str, "_call"))
	}
	return false, false
}

// showItem hands an event of an item on, under the client's numbers.
func (r *responsesRelay) showItem(b *relayItem, f frameOf) {
	switch {
	case b == nil && r.full && f.root.Get("output_index").Exists():
		index := f.root.Get("output_index").Int()
		r.tell(f, &relayItem{index: index, client: int(index) + r.shift()})
	case b == nil:
		r.tell(f, nil)
	case b.hidden:
	case b.held:
		r.keep(len(f.Data))
		b.frames = append(b.frames, bytes.Clone(f.Data))
	default:
		r.tell(f, b)
	}
}

// closeItem makes a part of an item that is complete.
func (r *responsesRelay) closeItem(b *relayItem, item gjson.Result) {
	p := responsesPart(item)
	if b.held {
		b.held = false
		if b.hidden = r.o.Judge(p.Name, p.Arguments); !b.hidden {
			r.releaseItem(b)
		}
		b.frames = nil
	}
	p.Hidden = b.hidden
	if r.keep(len(p.Raw) + len(p.Arguments)) {
		r.now.Parts = append(r.now.Parts, p)
	}
}

// releaseItem shows the client an item that was kept back.
func (r *responsesRelay) releaseItem(b *relayItem) {
	b.client = r.visible
	r.visible++
	for _, data := range b.frames {
		r.tell(frameOf{root: gjson.ParseBytes(data)}, b)
	}
}

func (r *responsesRelay) spill() {
	for _, b := range r.items {
		if b.held {
			b.held = false
			r.releaseItem(b)
			b.frames = nil
		}
	}
}

// tell puts an event out under the client's numbers. The numbers of events
// count from that of the first.
func (r *responsesRelay) tell(f frameOf, b *relayItem) {
	var with map[string][]byte
	set := func(key string, n int64) {
		if with == nil {
			with = make(map[string][]byte, 2)
		}
		with[key] = strconv.AppendInt(nil, n, 10)
	}
	if n := f.root.Get("sequence_number"); n.Exists() {
		if !r.numbered {
			r.numbered, r.sequence = true, n.Int()
		}
		if n.Int() != r.sequence {
			set("sequence_number", r.sequence)
		}
		r.sequence++
	}
	if b != nil && int64(b.client) != b.index {
		set("output_index", int64(b.client))
	}
	if with == nil && f.Raw != nil {
		r.pass(f.Frame)
		return
	}
	r.put(f.root.Get("type").Str, object(f.root, nil, with))
}

// last reads the last event.
func (r *responsesRelay) last(f frameOf, kind string) {
	response := f.root.Get("response")
	if len(r.now.Parts) == 0 && !r.full { // of a server that does not send items one by one
		r.output(response)
	}
	r.count(response)
	if kind == "response.completed" && r.now.asks() && r.now.Complete() {
		r.held, r.end = true, bytes.Clone(f.Data)
		return
	}
	r.ended = true
	if r.full || len(r.past) == 0 && len(r.now.Hidden()) == 0 {
		r.tell(f, nil)
		return
	}
	r.complete(f.root)
}

func (r *responsesRelay) complete(root gjson.Result) {
	with := map[string][]byte{"response": r.response(root.Get("response"))}
	if root.Get("sequence_number").Exists() {
		with["sequence_number"] = strconv.AppendInt(nil, r.sequence, 10)
	}
	r.put(root.Get("type").Str, object(root, nil, with))
}

func (r *responsesRelay) flush() {
	r.complete(gjson.ParseBytes(r.end))
	r.ended = true
}

// output makes parts of all items of a response object.
func (r *responsesRelay) output(response gjson.Result) {
	response.Get("output").ForEach(func(_, item gjson.Result) bool {
		p := responsesPart(item)
		hidden, held := r.entry(item)
		p.Hidden = hidden || held && r.o.Judge(p.Name, p.Arguments)
		r.now.Parts = append(r.now.Parts, p)
		return true
	})
}

func (r *responsesRelay) count(response gjson.Result) {
	r.now.StopReason = strings.Clone(response.Get("status").Str)
	r.now.Stateless = response.Get("store").Type == gjson.False
	usage := response.Get("usage")
	r.now.Usage, r.now.reasoning = usageOf(responsesCodec{}, usage), usage.Get("output_tokens_details.reasoning_tokens").Int()
}

// responsesPart is an item as it stands in a request.
func responsesPart(item gjson.Result) Part {
	p := Part{Kind: KindOther, Raw: []byte(item.Raw), ID: strings.Clone(item.Get("call_id").Str), Name: strings.Clone(item.Get("name").Str)}
	switch kind := item.Get("type").Str; {
	case kind == "message":
		p.Kind = KindText
	case kind == "reasoning":
		p.Kind = KindReasoning
	case kind == "function_call":
		p.Kind, p.Arguments = KindToolUse, strings.Clone(item.Get("arguments").Str)
	case kind == "custom_tool_call":
		p.Kind, p.Arguments = KindToolUse, strings.Clone(item.Get("input").Str)
	case strings.HasSuffix(kind, "_call") && p.ID != "":
		p.Kind, p.Name = KindToolUse, strings.TrimSuffix(strings.Clone(kind), "_call")
		p.Arguments = strings.Clone(item.Get("action").Raw + item.Get("operation").Raw)
	}
	return p
}

// response is a response with the items that the client has, and the
// usage of all iterations. Its id is that of the last: the one by which the
// upstream has all of them.
func (r *responsesRelay) response(response gjson.Result) []byte {
	output := []byte{'['}
	for _, it := range r.Iterations() {
		for i := range it.Parts {
			if it.Parts[i].Hidden {
				continue
			}
			if len(output) > 1 {
				output = append(output, ',')
			}
			output = append(output, it.Parts[i].Raw...)
		}
	}
	with := map[string][]byte{"output": append(output, ']')}
	if len(r.past) > 0 && response.Get("usage").IsObject() {
		with["usage"] = responsesSum(r)
	}
	return object(response, []string{"output"}, with)
}

// responsesSum is the usage of all iterations, each of them on record, or of the last.
func responsesSum(r *responsesRelay) []byte {
	reasoning := int64(0)
	for _, it := range r.Iterations() {
		reasoning += it.reasoning
	}
	out := append([]byte{'{'}, responsesCounts(r.usage(), reasoning)...)
	if r.o.LastUsage {
		return append(out, '}')
	}
	out = append(out, `,"iterations":[`...)
	for i, it := range r.Iterations() {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, '{'), responsesCounts(it.Usage, it.reasoning)...), '}')
	}
	return append(out, "]}"...)
}

func responsesCounts(u Usage, reasoning int64) []byte {
	out := appendCount(nil, "input_tokens", u.Prompt())
	out = append(out, `"input_tokens_details":{`...)
	out = appendCount(out, "cached_tokens", u.Read)
	out = appendCount(out, "cache_write_tokens", u.Write5m+u.Write1h)
	out = append(out[:len(out)-1], `},`...)
	out = appendCount(out, "output_tokens", u.Output)
	out = append(out, `"output_tokens_details":{`...)
	out = appendCount(out, "reasoning_tokens", reasoning)
	out = append(out[:len(out)-1], `},`...)
	return bytes.TrimSuffix(appendCount(out, "total_tokens", u.Prompt()+u.Output), []byte(","))
}

func (r *responsesRelay) document(body []byte) bool {
	root := gjson.ParseBytes(body)
	if !root.Get("output").IsArray() {
		return false
	}
	r.output(root)
	r.count(root)
	return true
}

func (r *responsesRelay) join(last []byte) []byte {
	return r.response(gjson.ParseBytes(last))
}

// continuation repeats the items of an answer. Reasoning that the upstream
// neither keeps nor has encrypted means nothing to it; an id of an item that
// came with such reasoning would ask for it.
func (responsesCodec) Continuation(it *Iteration) []byte {
	bare := false
	for i := range it.Parts {
		bare = bare || it.Stateless && bareReasoning(&it.Parts[i])
	}
	var out []byte
	for i := range it.Parts {
		p := &it.Parts[i]
		if bare && bareReasoning(p) {
			continue
		}
		raw := p.Raw
		if bare {
			raw = object(gjson.ParseBytes(raw), nil, map[string][]byte{"id": nil})
		}
		out = append(append(out, raw...), ',')
	}
	return append(out, responsesResults(it)...)
}

func bareReasoning(p *Part) bool {
	if p.Kind != KindReasoning {
		return false
	}
	item := gjson.ParseBytes(p.Raw)
	return item.Get("encrypted_content").Str == "" && len(item.Get("content").Array()) == 0
}

// responsesResults are the outputs of the hidden calls.
func responsesResults(it *Iteration) []byte {
	var out []byte
	for i, p := range it.Hidden() {
		if i > 0 {
			out = append(out, ',')
		}
		kind := gjson.GetBytes(p.Raw, "type").Str
		out = append(append(out, `{"type":"`...), kind...)
		out = append(append(out, `_output","call_id":`...), quoteText(p.ID)...)
		switch kind { // the tools of the provider's own have forms of their own
		case "shell_call":
			out = append(append(out, `,"output":[{"stdout":"","stderr":`...), quoteText(p.Result)...)
			out = append(out, `,"outcome":{"type":"exit","exit_code":1}}]}`...)
		case "apply_patch_call":
			out = append(append(append(out, `,"status":"failed","output":`...), quoteText(p.Result)...), '}')
		default:
			out = append(append(append(out, `,"output":`...), quoteText(p.Result)...), '}')
		}
	}
	return out
}

// weave goes through the client's items and the parts of the iterations side by
// side. An item that the client has dropped is skipped; one that is none of the
// parts ends it.
func (responsesCodec) Weave(v *View, message int, its []Iteration) ([]Edit, bool) {
	msg := &v.Messages[message]
	at, end := int(msg.First), int(msg.End)
	if at == end {
		return nil, false
	}
	for i := at; i < end; i++ {
		if v.Blocks[i].Has(FlagPart) {
			return nil, false
		}
	}
	var edits []Edit
	for n := range its {
		it := &its[n]
		var open []byte // hidden items whose place is in front of the next
		for i := range it.Parts {
			p := &it.Parts[i]
			switch {
			case p.Hidden:
				open = appendElement(open, p.Raw)
			case at < end && isItem(v, &v.Blocks[at], p):
				if open != nil {
					edits, open = append(edits, Edit{Block: at, Op: OpBefore, Value: open}), nil
				}
				at++
			}
		}
		if len(it.Hidden()) == 0 {
			continue
		}
		open = appendElement(open, responsesResults(it))
		if n < len(its)-1 && at < end {
			edits = append(edits, Edit{Block: at, Op: OpBefore, Value: open})
			continue
		}
		edits = append(edits, Edit{Block: end - 1, Op: OpAfterMessage, Value: open})
		break // the client has nothing of what came after
	}
	return edits, at == end
}

// isItem tells whether a block of the client is an item of an answer.
func isItem(v *View, b *Block, p *Part) bool {
	if p.Kind == KindOther {
		return b.Kind == KindOther || b.Kind == KindServerTool
	}
	if b.Kind != p.Kind {
		return false
	}
	part := gjson.ParseBytes(p.Raw)
	switch b.Kind {
	case KindToolUse:
		return v.Text(b.ID) == p.ID
	case KindText:
		said := part.Get("content.0.text").Str + part.Get("content.0.refusal").Str
		return strings.TrimSpace(gjson.ParseBytes(v.Bytes(b.Body)).Str) == strings.TrimSpace(said)
	case KindReasoning:
		mine := gjson.ParseBytes(v.Bytes(b.Span))
		if sealed := part.Get("encrypted_content").Str; sealed != "" {
			return mine.Get("encrypted_content").Str == sealed
		}
		return mine.Get("summary.#.text").Raw == part.Get("summary.#.text").Raw
	}
	return true
}
