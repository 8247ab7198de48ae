// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package interactions

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/hidden"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// interception intercepts calls in answers of the Interactions API. An answer is a list
// of steps, and a request is one too: what was hidden goes between the client's steps.
type interception struct {
	*hidden.Message
	steps []*openStep
}

func (r *interception) Next() { r.steps = nil }

// openStep is a step of a stream.
type openStep struct {
	hidden.Entry
	start []byte // the step as it began
	// What has come of it since: the insides of strings, but for the arguments.
	text, signature, arguments strings.Builder
	members                    map[string][]byte
	closed                     bool
}

// DeclareTool implements [hidden.Codec].
func (Codec) DeclareTool(name, description, schema string) []byte {
	return rawjson.Object("type", "function", "name", name, "description", description, "parameters", []byte(schema))
}

func (r *interception) Failure(kind, message string) []byte {
	if kind == "timeout_error" {
		kind = "deadline_exceeded"
	}
	return framing.SSE{}.Append(nil, "error", rawjson.Object("event_type", "error", "error", rawjson.Object("message", message, "code", kind)))
}

func (r *interception) Event(f hidden.Event) {
	if !f.Root.Exists() { // [DONE]
		if !r.Held {
			r.Pass(f.Event)
		}
		return
	}
	kind := f.Root.Get("event_type").Str
	switch kind {
	case "interaction.created", "interaction.status_update":
		if len(r.Past) == 0 {
			r.Pass(f.Event)
		}
	case "step.start":
		arguments := f.Root.Get("step.arguments").Raw
		if arguments == "{}" { // they come by deltas
			arguments = ""
		}
		r.showStep(r.openStep(f.Root), f, arguments)
	case "step.delta":
		b, delta := r.step(f.Root), f.Root.Get("delta")
		if b != nil && r.Keep(len(f.Data)) {
			r.gather(b, delta)
		}
		r.showStep(b, f, wire.ArgumentsText(delta.Get("arguments")))
	case "step.stop":
		b := r.step(f.Root)
		r.showStep(b, f, "")
		if b != nil && !r.Full {
			r.closeStep(b)
		}
	case "interaction.completed":
		r.last(f)
	default:
		r.Pass(f.Event)
	}
}

func (r *interception) step(root gjson.Result) *openStep {
	index := root.Get("index").Int()
	for _, b := range r.steps {
		if b.Index == index {
			return b
		}
	}
	return nil
}

// openStep begins a step.
func (r *interception) openStep(root gjson.Result) *openStep {
	step := root.Get("step")
	if !r.Keep(hidden.BlockSize + len(step.Raw)) {
		return nil
	}
	hides, watches := r.entry(step)
	b := &openStep{Entry: r.Open(root.Get("index").Int(), hides, watches), start: []byte(step.Raw)}
	r.steps = append(r.steps, b)
	return b
}

// Index implements [hidden.Interception].
func (r *interception) Index(f hidden.Event) (int64, bool) {
	index := f.Root.Get("index")
	return index.Int(), index.Exists()
}

func (r *interception) entry(step gjson.Result) (hidden, watched bool) {
	if step.Get("type").Str != "function_call" {
		return false, false
	}
	name := step.Get("name").Str
	hidden = r.Options.Hide(name)
	return hidden, !hidden && r.Options.Watch(name)
}

// gather adds a piece to a step. What is no text comes whole, as members of the step;
// media that the model has made cannot be told from their pieces.
func (r *interception) gather(b *openStep, delta gjson.Result) {
	switch delta.Get("type").Str {
	case "text":
		r.Write(&b.text, delta.Get("text"))
	case "thought_summary":
		r.Write(&b.text, delta.Get("content.text"))
	case "thought_signature":
		r.Write(&b.signature, delta.Get("signature"))
	case "arguments_delta":
		b.arguments.WriteString(delta.Get("arguments").Str)
	case "text_annotation_delta":
	case "image", "audio", "video", "document":
		r.Now.Opaque = true
	default:
		if b.members == nil {
			b.members = map[string][]byte{}
		}
		delta.ForEach(func(k, v gjson.Result) bool {
			if k.Str != "type" {
				b.members[strings.Clone(k.Str)] = []byte(v.Raw)
			}
			return true
		})
	}
}

// whole is the step as it stands in a request.
func (b *openStep) whole() []byte {
	with, order := b.members, slices.Sorted(maps.Keys(b.members))
	set := func(key string, value []byte) {
		if with == nil {
			with = map[string][]byte{}
		}
		with[key], order = value, append(order, key)
	}
	start := gjson.ParseBytes(b.start)
	list := "content"
	if start.Get("type").Str == "thought" {
		list = "summary"
	}
	if b.text.Len() > 0 {
		text := rawjson.Inner(start.Get(list + ".0.text")) // what it began with
		set(list, rawjson.Array(rawjson.Object("type", "text", "text", rawjson.Quoted(text+b.text.String()))))
	}
	if b.signature.Len() > 0 {
		set("signature", rawjson.Quoted(b.signature.String()))
	}
	if args := b.arguments.String(); rawjson.ValidObject(args) {
		set("arguments", []byte(args))
	}
	if with == nil {
		return b.start
	}
	return rawjson.Rewrite(start, order, with)
}

// showStep hands an event of a step on, under the client's numbers. The event adds a text
// to the arguments of a call.
func (r *interception) showStep(b *openStep, f hidden.Event, text string) {
	switch {
	case b == nil && r.Full && f.Root.Get("index").Exists():
		index := f.Root.Get("index").Int()
		r.tell(f, &openStep{Entry: hidden.Entry{Index: index, Client: int(index) + r.Shift()}})
	case b == nil:
		r.Pass(f.Event)
	default:
		r.Show(&b.Entry, f, text, func(f hidden.Event) { r.tell(f, b) })
	}
}

// closeStep makes a part of a step that is complete.
func (r *interception) closeStep(b *openStep) {
	if b.closed {
		return
	}
	b.closed = true
	p := partOf(gjson.ParseBytes(b.whole()))
	r.Judge(&b.Entry, &p, func(f hidden.Event) { r.tell(f, b) })
	if r.Keep(len(p.Raw) + len(p.Arguments)) {
		r.Now.Parts = append(r.Now.Parts, p)
	}
}

func (r *interception) Spill() {
	for _, b := range r.steps {
		r.Release(&b.Entry, func(f hidden.Event) { r.tell(f, b) })
		b.text, b.signature, b.arguments, b.members = strings.Builder{}, strings.Builder{}, strings.Builder{}, nil
	}
}

// tell puts an event out under the client's number of the step.
func (r *interception) tell(f hidden.Event, b *openStep) {
	if int64(b.Client) == b.Index && f.Raw != nil {
		r.Pass(f.Event)
		return
	}
	r.Put(f.Root.Get("event_type").Str, rawjson.Rewrite(f.Root, nil, map[string][]byte{"index": strconv.AppendInt(nil, int64(b.Client), 10)}))
}

// last reads the last event.
func (r *interception) last(f hidden.Event) {
	it := f.Root.Get("interaction")
	if !r.Full {
		for _, b := range r.steps {
			r.closeStep(b)
		}
	}
	r.count(it)
	if r.Now.Asks() && r.Now.Complete() {
		r.Held, r.Last = true, bytes.Clone(f.Data)
		return
	}
	r.Ended = true
	if r.Full || len(r.Past) == 0 && len(r.Now.Hidden()) == 0 {
		r.Pass(f.Event)
		return
	}
	r.complete(f.Root)
}

func (r *interception) complete(root gjson.Result) {
	r.Put(root.Get("event_type").Str, rawjson.Rewrite(root, nil, map[string][]byte{"interaction": r.interaction(root.Get("interaction"), false)}))
}

func (r *interception) Flush() {
	r.complete(gjson.ParseBytes(r.Last))
	r.Put("done", []byte("[DONE]"))
	r.Ended = true
}

func (r *interception) count(it gjson.Result) {
	r.Now.StopReason = strings.Clone(it.Get("status").Str)
	usage := it.Get("usage")
	r.Now.Usage, r.Now.Reasoning = readUsage(wire.Usage{}, usage), wire.Count(usage.Get("total_thought_tokens"))
}

// partOf is a step as it stands in a request.
func partOf(step gjson.Result) hidden.Part {
	p := hidden.Part{Kind: wire.KindOther, Raw: []byte(step.Raw)}
	switch step.Get("type").Str {
	case "model_output":
		p.Kind = wire.KindText
	case "thought":
		p.Kind = wire.KindReasoning
	case "function_call":
		p.Kind, p.ID, p.Name = wire.KindToolUse, strings.Clone(step.Get("id").Str), strings.Clone(step.Get("name").Str)
		if p.Arguments = strings.Clone(wire.ArgumentsText(step.Get("arguments"))); p.Arguments == "" {
			p.Arguments = "{}"
		}
		if wire.IsProgram(step.Get("caller")) {
			p.Kind = wire.KindProgram
		}
	}
	return p
}

// interaction is an interaction with the steps that the client has, if it tells them,
// and the usage of all iterations. Its id is that of the last: the one by which the
// provider has all of them.
func (r *interception) interaction(it gjson.Result, whole bool) []byte {
	calls := slices.ContainsFunc(r.Iterations(), func(it hidden.Iteration) bool {
		return slices.ContainsFunc(it.Parts, func(p hidden.Part) bool { return !p.Hidden && p.Kind.IsCall() })
	})
	with := map[string][]byte{}
	if whole || it.Get("steps").Exists() {
		with["steps"] = rawjson.Array(r.Visibles())
	}
	if !calls && it.Get("status").Str == "requires_action" { // of calls that the client does not have
		with["status"] = []byte(`"completed"`)
	}
	if len(r.Past) > 0 && it.Get("usage").IsObject() {
		with["usage"] = r.TotalUsage("", appendCounts)
	}
	return rawjson.Rewrite(it, []string{"steps"}, with)
}

func (r *interception) Document(body []byte) bool {
	root := gjson.ParseBytes(body)
	if !root.Get("steps").IsArray() {
		return false
	}
	for _, step := range said(root.Get("steps")) {
		p := partOf(step)
		hidden, watched := r.entry(step)
		p.Hidden = hidden || watched && r.Copies(p.Arguments)
		r.Now.Parts = append(r.Now.Parts, p)
	}
	r.count(root)
	return true
}

func (r *interception) Join(last []byte) []byte {
	return r.interaction(gjson.ParseBytes(last), true)
}

// Continuation implements [hidden.Codec]: it repeats the steps of an answer.
func (Codec) Continuation(it *hidden.Iteration) []byte {
	return rawjson.AppendElement(it.Raw(), toolResults(it))
}

// toolResults are the results of the hidden calls.
func toolResults(it *hidden.Iteration) []byte {
	var out []byte
	for _, p := range it.Hidden() {
		var failed any
		if p.Failed {
			failed = true
		}
		out = rawjson.AppendElement(out, rawjson.Object("type", "function_result", "name", p.Name, "call_id", p.ID, "is_error", failed, "result", p.Result))
	}
	return out
}

// appendCounts writes the counts: the input's includes what was read from the cache, the
// output's leaves the thoughts out. What was written to a cache has members of this
// module's.
func appendCounts(b []byte, u wire.Usage, thoughts int64) []byte {
	thoughts = min(thoughts, u.Output)
	b = rawjson.AppendCount(b, "total_tokens", u.Prompt()+u.Output)
	b = rawjson.AppendCount(b, "total_input_tokens", u.Prompt())
	b = rawjson.AppendCount(b, "total_cached_tokens", u.Read)
	b = rawjson.AppendCount(b, "total_output_tokens", u.Output-thoughts)
	b = rawjson.AppendCount(b, "total_tool_use_tokens", 0)
	b = rawjson.AppendCount(b, "total_thought_tokens", thoughts)
	if n := u.Write5m + u.Write1h; n > 0 {
		b = rawjson.AppendCount(b, "total_cache_write_tokens", n)
	}
	if u.Write1h > 0 {
		b = rawjson.AppendCount(b, "total_cache_write_1h_tokens", u.Write1h)
	}
	return b[:len(b)-1]
}
