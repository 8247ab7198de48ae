// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openairesponses

import (
	"cmp"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// answerReader reads answers of the Responses API. Content comes as deltas, again in the event at the
// item's end, and again in the last event. The reader takes it from the first of these that the
// server sends. It omits the items of tools that the provider runs itself.
type answerReader struct {
	wire.Teller
	// The items with text, and with reasoning, from deltas.
	texts, thoughts map[int64]bool
	begun           bool
	said            bool // an item was read
}

// Event implements [wire.AnswerReader].
func (r *answerReader) Event(root gjson.Result, name string) {
	index := root.Get("output_index")
	at := index.Int()
	if r.Index = -1; index.Exists() {
		r.Index = at
	}
	switch kind := cmp.Or(root.Get("type").Str, name); kind {
	case "response.output_text.delta":
		r.texts = mark(r.texts, at)
		r.Text(rawjson.Inner(root.Get("delta")))
	case "response.refusal.delta":
		r.texts = mark(r.texts, at)
		r.refuse(root.Get("delta"))
	case "response.reasoning_summary_part.added":
		r.paragraph(at)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		r.thoughts = mark(r.thoughts, at)
		r.Thinking(rawjson.Inner(root.Get("delta")))
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		r.Arguments(r.Find(at), rawjson.Inner(root.Get("delta")))
	case "response.output_item.added":
		item := root.Get("item")
		r.Open(at, item)
		r.open(item, at)
	case "response.output_item.done":
		r.item(root.Get("item"), at)
	case "response.created":
		r.begin(root.Get("response"))
	case "response.in_progress", "response.queued", "keepalive":
		if r.begun {
			r.Ping(root.Get("response.id").Str)
		}
	case "response.completed", "response.incomplete", "response.failed":
		r.end(root.Get("response"), kind == "response.failed")
	case "error":
		r.fail(root)
	case "codex.rate_limits":
		r.Tell(wire.Event{Kind: wire.EventLimits, Data: root.Raw})
	default:
		if !strings.HasPrefix(kind, "response.") {
			r.FailIf(root, name)
		} else if r.Find(at) >= 0 { // a delta in a call of a tool that the API defines
			r.Piece("", rawjson.Inner(root.Get("delta")))
		}
	}
}

// Whole implements [wire.AnswerReader].
func (r *answerReader) Whole(root gjson.Result) {
	status, output := root.Get("status").Str, root.Get("output")
	if !output.Exists() {
		r.NoAnswer(root)
	}
	if output.IsArray() || status != "" {
		r.end(root, status == "failed")
	}
}

// Done implements [wire.AnswerReader]. It does nothing: some servers send [DONE] after the last event.
func (r *answerReader) Done() {}

// EOF implements [wire.AnswerReader]. It does nothing: a stream without its last event is incomplete.
func (r *answerReader) EOF() {}

func mark(m map[int64]bool, at int64) map[int64]bool {
	if m == nil {
		m = map[int64]bool{}
	}
	if len(m) < wire.MaxCalls {
		m[at] = true
	}
	return m
}

func (r *answerReader) begin(response gjson.Result) {
	r.begun = true
	r.Begin(response.Get("id").Str, response.Get("model").Str)
}

// end reads the response object of a JSON answer or of the last event of a stream.
func (r *answerReader) end(response gjson.Result, failed bool) {
	if failed || response.Get("error").IsObject() {
		r.fail(response)
	}
	r.Served(wire.ServiceTier(response.Get("service_tier").Str))
	r.count(response.Get("usage"))
	r.begin(response)
	// Some servers send the items only here.
	if index := int64(0); !r.said && len(r.texts)+len(r.thoughts) == 0 {
		response.Get("output").ForEach(func(_, item gjson.Result) bool {
			r.item(item, index)
			index++
			return true
		})
	}
	r.Stop(cmp.Or(response.Get("incomplete_details.reason").Str, response.Get("status").Str), "")
	if !failed {
		r.End()
	}
}

// fail reads an error, from the object itself or from its member error.
func (r *answerReader) fail(root gjson.Result) {
	e := root
	if inner := root.Get("error"); inner.IsObject() {
		e = inner
	}
	r.Tell(wire.Event{Kind: wire.EventError, Data: root.Raw, Name: e.Get("code").String()})
}

func (r *answerReader) refuse(text gjson.Result) {
	if s := rawjson.Inner(text); s != "" {
		r.Tell(wire.Event{Kind: wire.EventRefusal, Text: s})
	}
}

// paragraph begins a part of a summary. An empty line separates it from the part before.
func (r *answerReader) paragraph(at int64) {
	if r.thoughts[at] {
		r.Thinking(`\n\n`)
	}
}

// open reads the start of an item. It returns the number of a call, or -1.
func (r *answerReader) open(item gjson.Result, at int64) int {
	kind, id := item.Get("type").Str, item.Get("call_id").Str
	// The first text of reasoning may come long after its start.
	if kind == "reasoning" {
		r.Tell(wire.Event{Kind: wire.EventThinking})
	}
	// Calls of tools that the API defines have a call_id only if the client runs the tool.
	apiDefined := kind != "function_call" && kind != "custom_tool_call"
	if apiDefined && (id == "" || !strings.HasSuffix(kind, "_call")) {
		// Other items start with their first text.
		return -1
	}
	r.said = true
	name := item.Get("name").Str
	if apiDefined {
		name = cmp.Or(name, strings.TrimSuffix(kind, "_call"))
	}
	return r.Call(at, wire.Event{ID: id, Name: name, APIDefined: apiDefined, Free: kind == "custom_tool_call"})
}

// item reads a complete item, without the content that was read from deltas.
func (r *answerReader) item(item gjson.Result, at int64) {
	r.Index = at
	defer r.Close(item.Raw)
	switch kind := item.Get("type").Str; {
	case kind == "message":
		r.said = true
		if !r.texts[at] {
			item.Get("content").ForEach(func(_, part gjson.Result) bool {
				r.Text(rawjson.Inner(part.Get("text")))
				r.refuse(part.Get("refusal"))
				return true
			})
		}
		r.EndBlock()
	case kind == "reasoning":
		r.said = true
		r.Tell(wire.Event{Kind: wire.EventThinking})
		if !r.thoughts[at] {
			for _, list := range [...]string{"summary", "content"} {
				item.Get(list).ForEach(func(_, part gjson.Result) bool {
					r.paragraph(at)
					r.thoughts = mark(r.thoughts, at)
					r.Thinking(rawjson.Inner(part.Get("text")))
					return true
				})
			}
		}
		r.Sign(wire.SignsBlock, item.Get("id").Str, item.Get("encrypted_content").Str)
		r.EndBlock()
	case kind == "image_generation_call":
		r.said = true
		r.Image("image/"+cmp.Or(item.Get("output_format").Str, "png"), item.Get("result").Str)
	case strings.HasSuffix(kind, "_call"):
		call := r.Find(at)
		if call < 0 || !r.IsOpen(call) && r.CallID(call) != item.Get("call_id").Str {
			if call = r.open(item, at); call < 0 {
				return
			}
		}
		for _, member := range [...]string{"arguments", "input", "action", "operation"} {
			if v := item.Get(member); v.Exists() {
				r.EndCall(call, rawjson.InnerJSON(v))
				return
			}
		}
		r.EndCall(call, "")
	}
}

func (r *answerReader) count(u gjson.Result) {
	if usage.Read(&r.Counts, u) {
		r.Count()
	}
}
