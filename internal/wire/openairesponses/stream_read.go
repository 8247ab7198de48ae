// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openairesponses

import (
	"cmp"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// streamReader reads answers of the Responses API. Items of tools that the
// provider runs itself are left out: no other format has them.
type streamReader struct {
	// texts and summaries tell which items came in deltas: what is done then
	// repeats them.
	texts, thoughts map[int64]bool
}

func (r *streamReader) Event(f *translate.Flow, name string, root gjson.Result) {
	at := root.Get("output_index").Int()
	switch translate.EventType(root, name) {
	case "response.output_text.delta":
		r.texts = mark(r.texts, at)
		f.Text(rawjson.Inner(root.Get("delta")))
	case "response.refusal.delta":
		r.texts = mark(r.texts, at)
		f.Answer.Refused = true
		f.Text(rawjson.Inner(root.Get("delta")))
	case "response.reasoning_summary_part.added":
		r.paragraph(f, at)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		r.thoughts = mark(r.thoughts, at)
		f.Thinking(rawjson.Inner(root.Get("delta")))
	case "response.function_call_arguments.delta":
		if b := f.Find(at); b != nil && !b.Call.Custom {
			f.Arguments(b, rawjson.Inner(root.Get("delta")))
		}
	case "response.output_item.added":
		r.open(f, root.Get("item"), at)
	case "response.output_item.done":
		r.item(f, root.Get("item"), at)
	case "response.created":
		m := root.Get("response")
		f.Begin(strings.Clone(m.Get("id").Str), strings.Clone(m.Get("model").Str))
	case "response.completed", "response.incomplete":
		r.end(f, root.Get("response"))
	case "response.failed":
		f.FailWith(root.Get("response"))
	case "response.in_progress", "response.queued", "keepalive":
		if f.Answer.Started {
			f.Ping()
		}
	default:
		f.FailIf(name, root)
	}
}

// paragraph begins a part of a summary: an empty line sets it apart from the one before.
func (r *streamReader) paragraph(f *translate.Flow, at int64) {
	if r.thoughts[at] {
		f.Thinking(`\n\n`)
	}
}

func mark(m map[int64]bool, at int64) map[int64]bool {
	if m == nil {
		m = map[int64]bool{}
	}
	m[at] = true
	return m
}

// open begins a call; other items begin with their first text.
func (r *streamReader) open(f *translate.Flow, item gjson.Result, at int64) *translate.Block {
	switch kind := item.Get("type").Str; kind {
	case "function_call", "custom_tool_call":
		b := f.Call(at, strings.Clone(item.Get("call_id").Str), strings.Clone(item.Get("name").Str), "", true)
		if b != nil {
			b.Call.Custom = kind == "custom_tool_call"
		}
		return b
	}
	return nil
}

// item takes an item that is complete, with what no delta has brought.
func (r *streamReader) item(f *translate.Flow, item gjson.Result, at int64) {
	switch item.Get("type").Str {
	case "message":
		if !r.texts[at] {
			item.Get("content").ForEach(func(_, part gjson.Result) bool {
				f.Text(rawjson.Inner(part.Get("text")))
				if s := rawjson.Inner(part.Get("refusal")); s != "" {
					f.Answer.Refused = true
					f.Text(s)
				}
				return true
			})
		}
		f.EndBlock()
	case "reasoning":
		if !r.thoughts[at] {
			for _, list := range [...]string{"summary", "content"} {
				item.Get(list).ForEach(func(_, part gjson.Result) bool {
					r.paragraph(f, at)
					r.thoughts = mark(r.thoughts, at)
					f.Thinking(rawjson.Inner(part.Get("text")))
					return true
				})
			}
		}
		f.Sign(strings.Clone(item.Get("id").Str), strings.Clone(item.Get("encrypted_content").Str), false)
		f.EndBlock()
	case "function_call", "custom_tool_call":
		b := f.Find(at)
		if b == nil || b.Done && b.ID != item.Get("call_id").Str {
			if b = r.open(f, item, at); b == nil {
				return
			}
		}
		switch {
		case b.Call.Custom && !b.Filled:
			f.Arguments(b, string(rawjson.Escaped(`{"input":`+item.Get("input").Raw+`}`)))
		case !b.Filled:
			f.Arguments(b, translate.ArgumentsText(item.Get("arguments")))
		}
		f.EndCall(b)
	}
}

// end takes the final response.
func (r *streamReader) end(f *translate.Flow, m gjson.Result) {
	f.Served(wire.ServiceTier(m.Get("service_tier").Str))
	f.Count(m.Get("usage"))
	f.Begin(strings.Clone(m.Get("id").Str), strings.Clone(m.Get("model").Str))
	if !f.Answer.Written { // some servers stream nothing but the end
		r.output(f, m.Get("output"))
	}
	f.StoppedBy(cmp.Or(m.Get("incomplete_details.reason").Str, m.Get("status").Str))
	f.End()
}

func (r *streamReader) output(f *translate.Flow, list gjson.Result) {
	at := int64(0)
	list.ForEach(func(_, item gjson.Result) bool {
		r.item(f, item, at)
		at++
		return !f.Ended
	})
}

func (r *streamReader) Whole(f *translate.Flow, root gjson.Result) {
	if root.Get("status").Str == "failed" || !root.Get("output").Exists() {
		f.FailWith(root)
		return
	}
	r.end(f, root)
}

func (r *streamReader) Done(*translate.Flow) {}

func (r *streamReader) EOF(*translate.Flow) {}
