// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package interactions

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// streamReader reads answers. Steps of tools that the provider runs itself are left out:
// no other format has them.
type streamReader struct {
	signature string // of the thought that is being told
}

func (r *streamReader) Event(f *translate.Flow, name string, root gjson.Result) {
	kind := root.Get("event_type").Str
	if kind == "" {
		kind = name
	}
	switch at := root.Get("index").Int(); kind {
	case "step.delta":
		r.delta(f, root.Get("delta"), at)
	case "step.start":
		r.begin(f, root.Get("step"), at)
	case "step.stop":
		r.stop(f, at)
	case "interaction.created":
		m := root.Get("interaction")
		f.Begin(strings.Clone(m.Get("id").Str), strings.Clone(m.Get("model").Str))
	case "interaction.status_update":
		f.Count(root.Get("usage"))
		if f.Answer.Started {
			f.Ping()
		}
	case "interaction.completed":
		r.end(f, root.Get("interaction"))
	default:
		f.FailIf(kind, root)
	}
}

func (r *streamReader) delta(f *translate.Flow, d gjson.Result, at int64) {
	switch d.Get("type").Str {
	case "text":
		f.Text(rawjson.Inner(d.Get("text")))
	case "thought_summary":
		f.Thinking(rawjson.Inner(d.Get("content.text")))
	case "thought_signature":
		r.signature = strings.Clone(d.Get("signature").Str)
	case "arguments_delta":
		if b := f.Find(at); b != nil {
			f.Arguments(b, rawjson.Inner(d.Get("arguments")))
		}
	}
}

// begin takes a step as it begins, or whole.
func (r *streamReader) begin(f *translate.Flow, s gjson.Result, at int64) {
	r.signature = ""
	switch s.Get("type").Str {
	case "model_output":
		s.Get("content").ForEach(func(_, c gjson.Result) bool {
			f.Text(rawjson.Inner(c.Get("text")))
			return !f.Ended
		})
	case "thought":
		r.signature = strings.Clone(s.Get("signature").Str)
		s.Get("summary").ForEach(func(_, c gjson.Result) bool {
			f.Thinking(rawjson.Inner(c.Get("text")))
			return !f.Ended
		})
	case "function_call":
		b := f.Call(at, strings.Clone(s.Get("id").Str), strings.Clone(s.Get("name").Str), "", true)
		if args := s.Get("arguments"); b != nil && args.IsObject() {
			b.Call.Initial = string(rawjson.Escaped(args.Raw))
		}
	}
}

// stop ends a step. The signature of a thought counts for all that was told of it.
func (r *streamReader) stop(f *translate.Flow, at int64) {
	if b := f.Find(at); b != nil && !b.Done {
		if !b.Filled {
			f.Arguments(b, b.Call.Initial)
		}
		f.EndCall(b)
		return
	}
	if r.signature != "" {
		f.Sign("", r.signature, false)
		r.signature = ""
	}
	f.EndBlock()
}

// end takes an interaction at its end.
func (r *streamReader) end(f *translate.Flow, m gjson.Result) {
	f.Served(wire.ServiceTier(m.Get("service_tier").Str))
	f.Count(m.Get("usage"))
	f.Begin(strings.Clone(m.Get("id").Str), strings.Clone(m.Get("model").Str))
	if !f.Answer.Written {
		for i, s := range said(m.Get("steps")) {
			r.begin(f, s, int64(i))
			r.stop(f, int64(i))
		}
	}
	if fault := m.Get("errors.0"); fault.IsObject() && translate.StopReasonOf(m.Get("status").Str) == translate.StopFailed {
		f.FailWith(fault)
		return
	}
	f.StoppedBy(m.Get("status").Str)
	f.End()
}

func (r *streamReader) Whole(f *translate.Flow, root gjson.Result) {
	if !root.Get("status").Exists() && !root.Get("steps").Exists() {
		f.FailWith(root)
		return
	}
	r.end(f, root)
}

func (r *streamReader) Done(*translate.Flow) {}

func (r *streamReader) EOF(*translate.Flow) {}
