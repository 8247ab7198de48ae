// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openairesponses

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/flat"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/hidden"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// interception intercepts calls in answers of the Responses API. An answer is a list of
// items, and a request is one too: what was hidden goes between the client's items.
type interception struct {
	*hidden.Message
	items []*openItem
	head  head
	// The number of the client's next event, once there was one.
	sequence int64
	numbered bool
}

func (r *interception) Next() { r.items = nil }

// openItem is an item of a stream.
type openItem struct{ hidden.Entry }

// head is what the first event of a stream says of the answer.
type head struct{ id, created, model string }

// DeclareTool implements [hidden.Codec].
func (Codec) DeclareTool(name, description, schema string) []byte {
	return rawjson.Object("type", "function", "name", name, "description", description, "parameters", []byte(schema), "strict", false)
}

func (r *interception) Failure(kind, message string) []byte {
	if kind == "api_error" || kind == "timeout_error" {
		kind = "server_error"
	}
	members := []any{"object", "response", "status", "failed"}
	for _, m := range [...]struct{ key, raw string }{{"id", r.head.id}, {"created_at", r.head.created}, {"model", r.head.model}} {
		if m.raw != "" {
			members = append(members, m.key, []byte(m.raw))
		}
	}
	members = append(members, "error", rawjson.Object("code", kind, "message", message), "incomplete_details", []byte("null"), "output", []byte("[]"), "usage", []byte("null"))
	event := rawjson.Object("type", "response.failed", "sequence_number", r.sequence, "response", rawjson.Object(members...))
	return framing.SSE{}.Append(nil, "response.failed", event)
}

func (r *interception) Event(f hidden.Event) {
	if !f.Root.Exists() { // [DONE], of some servers
		if !r.Held {
			r.Pass(f.Event)
		}
		return
	}
	kind := f.Root.Get("type").Str
	switch kind {
	case "response.created", "response.in_progress", "response.queued":
		if len(r.Past) > 0 {
			return
		}
		if response := f.Root.Get("response"); r.head.id == "" {
			r.head = head{
				strings.Clone(response.Get("id").Raw), strings.Clone(response.Get("created_at").Raw), strings.Clone(response.Get("model").Raw),
			}
		}
		r.tell(f, nil)
	case "response.output_item.added":
		r.showItem(r.openItem(f.Root), f, "")
	case "response.output_item.done":
		b := r.item(f.Root.Get("output_index").Int())
		if b == nil {
			b = r.openItem(f.Root)
		}
		r.showItem(b, f, "")
		if !r.Full {
			r.closeItem(b, f.Root.Get("item"))
		}
	case "response.completed", "response.incomplete":
		r.last(f, kind)
	default:
		b := (*openItem)(nil)
		if index := f.Root.Get("output_index"); index.Exists() {
			b = r.item(index.Int())
		}
		r.showItem(b, f, f.Root.Get("delta").Str)
	}
}

func (r *interception) item(index int64) *openItem {
	for _, b := range r.items {
		if b.Index == index {
			return b
		}
	}
	return nil
}

// openItem begins an item of the output. Calls that are to be judged are known
// by their type: those whose results are texts.
func (r *interception) openItem(root gjson.Result) *openItem {
	if !r.Keep(hidden.BlockSize) {
		return nil
	}
	hides, watches := r.entry(root.Get("item"))
	b := &openItem{r.Open(root.Get("output_index").Int(), hides, watches)}
	r.items = append(r.items, b)
	return b
}

// Index implements [hidden.Interception].
func (r *interception) Index(f hidden.Event) (int64, bool) {
	index := f.Root.Get("output_index")
	return index.Int(), index.Exists()
}

func (r *interception) entry(item gjson.Result) (hidden, watched bool) {
	name := item.Get("name").Str
	switch item.Get("type").Str {
	case "function_call":
		hidden = r.Options.Hide(name)
		return hidden, !hidden && r.Options.Watch(name)
	case "custom_tool_call":
		return false, r.Options.Watch(name)
	case "local_shell_call", "shell_call", "apply_patch_call":
		return false, r.Options.Watch(strings.TrimSuffix(item.Get("type").Str, "_call"))
	}
	return false, false
}

// showItem hands an event of an item on, under the client's numbers. The event adds a text
// to the item.
func (r *interception) showItem(b *openItem, f hidden.Event, text string) {
	switch {
	case b == nil && r.Full && f.Root.Get("output_index").Exists():
		index := f.Root.Get("output_index").Int()
		r.tell(f, &openItem{hidden.Entry{Index: index, Client: int(index) + r.Shift()}})
	case b == nil:
		r.tell(f, nil)
	default:
		r.Show(&b.Entry, f, text, func(f hidden.Event) { r.tell(f, b) })
	}
}

// closeItem makes a part of an item that is complete.
func (r *interception) closeItem(b *openItem, item gjson.Result) {
	p := partOf(item)
	r.Judge(&b.Entry, &p, func(f hidden.Event) { r.tell(f, b) })
	if r.Keep(len(p.Raw) + len(p.Arguments)) {
		r.Now.Parts = append(r.Now.Parts, p)
	}
}

func (r *interception) Spill() {
	for _, b := range r.items {
		r.Release(&b.Entry, func(f hidden.Event) { r.tell(f, b) })
	}
}

// tell puts an event out under the client's numbers. The numbers of events
// count from that of the first.
func (r *interception) tell(f hidden.Event, b *openItem) {
	var with map[string][]byte
	set := func(key string, n int64) {
		if with == nil {
			with = make(map[string][]byte, 2)
		}
		with[key] = strconv.AppendInt(nil, n, 10)
	}
	if n := f.Root.Get("sequence_number"); n.Exists() {
		if !r.numbered {
			r.numbered, r.sequence = true, n.Int()
		}
		if n.Int() != r.sequence {
			set("sequence_number", r.sequence)
		}
		r.sequence++
	}
	if b != nil && int64(b.Client) != b.Index {
		set("output_index", int64(b.Client))
	}
	if with == nil && f.Raw != nil {
		r.Pass(f.Event)
		return
	}
	r.Put(f.Root.Get("type").Str, rawjson.Rewrite(f.Root, nil, with))
}

// last reads the last event.
func (r *interception) last(f hidden.Event, kind string) {
	response := f.Root.Get("response")
	if len(r.Now.Parts) == 0 && !r.Full { // of a server that does not send items one by one
		r.output(response)
	}
	r.count(response)
	if kind == "response.completed" && r.Now.Asks() && r.Now.Complete() {
		r.Held, r.Last = true, bytes.Clone(f.Data)
		return
	}
	r.Ended = true
	if r.Full || len(r.Past) == 0 && len(r.Now.Hidden()) == 0 {
		r.tell(f, nil)
		return
	}
	r.complete(f.Root)
}

func (r *interception) complete(root gjson.Result) {
	with := map[string][]byte{"response": r.response(root.Get("response"))}
	if root.Get("sequence_number").Exists() {
		with["sequence_number"] = strconv.AppendInt(nil, r.sequence, 10)
	}
	r.Put(root.Get("type").Str, rawjson.Rewrite(root, nil, with))
}

func (r *interception) Flush() {
	r.complete(gjson.ParseBytes(r.Last))
	r.Ended = true
}

// output makes parts of all items of a response object.
func (r *interception) output(response gjson.Result) {
	response.Get("output").ForEach(func(_, item gjson.Result) bool {
		p := partOf(item)
		hidden, watched := r.entry(item)
		p.Hidden = hidden || watched && r.Copies(p.Arguments)
		r.Now.Parts = append(r.Now.Parts, p)
		return true
	})
}

func (r *interception) count(response gjson.Result) {
	r.Now.StopReason = strings.Clone(response.Get("status").Str)
	r.Now.Stateless = response.Get("store").Type == gjson.False
	usage := response.Get("usage")
	r.Now.Usage, r.Now.Reasoning = readUsage(wire.Usage{}, usage), usage.Get("output_tokens_details.reasoning_tokens").Int()
}

// partOf is an item as it stands in a request.
func partOf(item gjson.Result) hidden.Part {
	p := hidden.Part{Kind: wire.KindOther, Raw: []byte(item.Raw), ID: strings.Clone(item.Get("call_id").Str), Name: strings.Clone(item.Get("name").Str)}
	switch kind := item.Get("type").Str; {
	case kind == "message":
		p.Kind = wire.KindText
	case kind == "reasoning":
		p.Kind = wire.KindReasoning
	case kind == "function_call":
		p.Kind, p.Arguments = wire.KindToolUse, strings.Clone(item.Get("arguments").Str)
	case kind == "custom_tool_call":
		p.Kind, p.Arguments = wire.KindToolUse, strings.Clone(item.Get("input").Str)
	case strings.HasSuffix(kind, "_call") && p.ID != "":
		p.Kind, p.Name = wire.KindToolUse, strings.TrimSuffix(strings.Clone(kind), "_call")
		p.Arguments = strings.Clone(item.Get("action").Raw + item.Get("operation").Raw)
	}
	if p.Kind == wire.KindToolUse && wire.IsProgram(item.Get("caller")) {
		p.Kind = wire.KindProgram
	}
	return p
}

// response is a response with the items that the client has, and the
// usage of all iterations. Its id is that of the last: the one by which the
// upstream has all of them.
func (r *interception) response(response gjson.Result) []byte {
	with := map[string][]byte{"output": rawjson.Array(r.Visibles())}
	if len(r.Past) > 0 && response.Get("usage").IsObject() {
		with["usage"] = r.TotalUsage("", appendCounts)
	}
	return rawjson.Rewrite(response, []string{"output"}, with)
}

func (r *interception) Document(body []byte) bool {
	root := gjson.ParseBytes(body)
	if !root.Get("output").IsArray() {
		return false
	}
	r.output(root)
	r.count(root)
	return true
}

func (r *interception) Join(last []byte) []byte {
	return r.response(gjson.ParseBytes(last))
}

// Continuation implements [hidden.Codec]: it repeats the items of an answer. Reasoning that the upstream
// neither keeps nor has encrypted means nothing to it; an id of an item that
// came with such reasoning would ask for it.
func (Codec) Continuation(it *hidden.Iteration) []byte {
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
			raw = rawjson.Rewrite(gjson.ParseBytes(raw), nil, map[string][]byte{"id": nil})
		}
		out = rawjson.AppendElement(out, raw)
	}
	return rawjson.AppendElement(out, toolResults(it))
}

func bareReasoning(p *hidden.Part) bool {
	if p.Kind != wire.KindReasoning {
		return false
	}
	item := gjson.ParseBytes(p.Raw)
	return item.Get("encrypted_content").Str == "" && len(item.Get("content").Array()) == 0
}

// toolResults are the outputs of the hidden calls.
func toolResults(it *hidden.Iteration) []byte {
	var out []byte
	for _, p := range it.Hidden() {
		kind := gjson.GetBytes(p.Raw, "type").Str
		members := []any{"type", kind + "_output", "call_id", p.ID}
		switch kind { // the tools of the provider's own have forms of their own
		case "shell_call":
			outcome := rawjson.Object("type", "exit", "exit_code", 1)
			members = append(members, "output", rawjson.Array(rawjson.Object("stdout", "", "stderr", p.Result, "outcome", outcome)))
		case "apply_patch_call":
			members = append(members, "status", "failed", "output", p.Result)
		default:
			members = append(members, "output", p.Result)
		}
		out = rawjson.AppendElement(out, rawjson.Object(members...))
	}
	return out
}

var items = flat.Format{
	Sealed: "encrypted_content",
	Text: func(item gjson.Result) string {
		return item.Get("content.0.text").Str + item.Get("content.0.refusal").Str
	},
	Results: toolResults,
}

// Reinsert implements [hidden.Codec].
func (Codec) Reinsert(v *wire.View, message int, its []hidden.Iteration) ([]wire.Edit, bool) {
	return flat.Reinsert(v, message, its, items)
}
