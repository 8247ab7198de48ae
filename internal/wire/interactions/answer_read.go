// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package interactions

import (
	"cmp"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// answerReader reads answers of the Interactions API. A stream has events for the start, the pieces and
// the end of a step, but never the whole step. The reader omits steps of tools that the provider
// runs itself.
type answerReader struct {
	wire.Teller
	signature string // of the current thought
	begun     bool
	said      bool // a step was read
}

// Event implements [wire.AnswerReader].
func (r *answerReader) Event(root gjson.Result, name string) {
	kind := cmp.Or(root.Get("event_type").Str, name)
	index := root.Get("index")
	if r.Index = -1; index.Exists() {
		r.Index = index.Int()
	}
	switch kind {
	case "step.delta":
		r.delta(root.Get("delta"))
	case "step.start":
		r.step(root.Get("step"), index.Int())
	case "step.stop":
		r.stop("")
	case "interaction.created":
		r.begin(root.Get("interaction"))
	case "interaction.status_update":
		r.count(root.Get("usage"))
		if r.begun {
			r.Ping(root.Get("interaction_id").Str)
		}
	case "interaction.completed":
		r.end(root.Get("interaction"))
	default:
		r.FailIf(root, kind)
	}
}

// Whole implements [wire.AnswerReader].
func (r *answerReader) Whole(root gjson.Result) {
	if !root.Get("status").Exists() && !root.Get("steps").IsArray() {
		r.NoAnswer(root)
		return
	}
	r.end(root)
}

// Done implements [wire.AnswerReader]. It does nothing: the API sends [DONE] after the last event.
func (r *answerReader) Done() {}

// EOF implements [wire.AnswerReader]. It does nothing: a stream without its last event is incomplete.
func (r *answerReader) EOF() {}

func (r *answerReader) begin(interaction gjson.Result) {
	r.begun = true
	r.Begin(interaction.Get("id").Str, interaction.Get("model").Str)
}

// delta reads a piece of a step.
func (r *answerReader) delta(d gjson.Result) {
	switch d.Get("type").Str {
	case "text":
		r.Text(rawjson.Inner(d.Get("text")))
	case "image":
		// Steps with media cannot be rebuilt from their pieces.
		r.Image(d.Get("mime_type").Str, d.Get("data").Str)
		r.Opaque()
	case "audio", "video", "document":
		r.Opaque()
	case "thought_summary":
		r.Thinking(rawjson.Inner(d.Get("content.text")))
	case "thought_signature":
		r.signature = strings.Clone(d.Get("signature").Str)
		r.Tell(wire.Event{Kind: wire.EventThinking})
	case "arguments_delta":
		r.Arguments(r.Find(r.Index), rawjson.InnerJSON(d.Get("arguments")))
	case "text_annotation_delta":
	default:
		// All other deltas have whole members of the step.
		r.Piece(d.Raw, "")
	}
}

// step reads a whole step, or the start of a step.
func (r *answerReader) step(s gjson.Result, at int64) {
	r.said, r.signature = true, ""
	r.Open(at, s)
	switch s.Get("type").Str {
	case "model_output":
		s.Get("content").ForEach(func(_, c gjson.Result) bool {
			r.Text(rawjson.Inner(c.Get("text")))
			r.Image(c.Get("mime_type").Str, c.Get("data").Str)
			return true
		})
	case "thought":
		r.Tell(wire.Event{Kind: wire.EventThinking})
		r.signature = strings.Clone(s.Get("signature").Str)
		s.Get("summary").ForEach(func(_, c gjson.Result) bool {
			r.Thinking(rawjson.Inner(c.Get("text")))
			return true
		})
	case "function_call":
		r.Call(at, wire.Event{ID: s.Get("id").Str, Name: s.Get("name").Str, Text: rawjson.InnerJSON(s.Get("arguments"))})
	}
}

// stop ends a step. whole is the step in an answer in one piece, empty in a stream.
func (r *answerReader) stop(whole string) {
	if call := r.Find(r.Index); r.IsOpen(call) {
		r.EndCall(call, "")
	} else {
		// The signature covers the whole thought.
		r.Sign(wire.SignsBlock, "", r.signature)
		r.signature = ""
		r.EndBlock()
	}
	r.Close(whole)
}

// end reads the interaction of a JSON answer or of the last event of a stream.
func (r *answerReader) end(interaction gjson.Result) {
	status := interaction.Get("status").Str
	if status == "failed" {
		fault := interaction.Get("errors.0")
		if !fault.IsObject() {
			fault = interaction
		}
		r.Fail(fault)
	}
	r.Served(wire.ServiceTier(interaction.Get("service_tier").Str))
	r.count(interaction.Get("usage"))
	r.begin(interaction)
	if !r.said {
		for i, s := range said(interaction.Get("steps")) {
			r.step(s, int64(i))
			r.stop(s.Raw)
		}
	}
	r.Stop(status, "")
	r.End()
}

func (r *answerReader) count(u gjson.Result) {
	if usage.Read(&r.Counts, u) {
		r.Count()
	}
}

// said returns the steps of an answer that the model wrote.
func said(steps gjson.Result) []gjson.Result {
	// An answer in one piece may begin with the steps of the request.
	all := steps.Array()
	for i := len(all) - 1; i >= 0; i-- {
		if kind := all[i].Get("type").Str; kind == "user_input" || kind == "function_result" {
			return all[i+1:]
		}
	}
	return all
}

// usage describes the members of a usage object.
var usage = wire.UsageTable{
	{Name: "total_tokens", Count: wire.CountSum},
	{Name: "total_input_tokens", Count: wire.CountPrompt},
	{Name: "total_cached_tokens", Count: wire.CountRead},
	{Name: "total_output_tokens", Count: wire.CountAnswer},
	{Name: "total_tool_use_tokens", Count: wire.CountTools},
	{Name: "total_thought_tokens", Count: wire.CountThoughts},
	// Google does not report cache writes. Package translate adds them for upstreams that do.
	{Name: "total_cache_write_tokens", Count: wire.CountWrite, Sparse: true},
	{Name: "total_cache_write_1h_tokens", Count: wire.CountLongWrite, Sparse: true},
}
