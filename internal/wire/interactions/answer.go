// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package interactions

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// answer reads answers.
type answer struct{ *wire.Answer }

// event reads one event of a stream and reports whether it is the last. A step is told
// when it begins, in pieces, and when it ends, never whole.
func (a answer) event(root gjson.Result, name string) bool {
	kind := root.Get("event_type").Str
	if kind == "" {
		kind = name
	}
	switch kind {
	case "step.delta":
		a.delta(root.Get("delta"), root.Get("index").Int())
	case "step.start":
		a.step(root.Get("step"), root.Get("index").Int())
	case "interaction.created":
		r := root.Get("interaction")
		a.Identify(r.Get("id").Str, r.Get("model").Str)
	case "interaction.status_update":
		a.Identify(root.Get("interaction_id").Str, "")
		a.Turn.Usage = readUsage(a.Turn.Usage, root.Get("usage"))
	case "interaction.completed":
		a.end(root.Get("interaction"))
		return true
	default:
		a.Fail(root, kind)
	}
	return false
}

// delta reads a piece of a step.
func (a answer) delta(d gjson.Result, index int64) {
	switch d.Get("type").Str {
	case "text":
		a.Write(&a.Text, d.Get("text").Str)
	case "thought_summary":
		a.Write(&a.Thinking, d.Get("content.text").Str)
	case "thought_signature":
		a.Begun = true
	case "arguments_delta":
		if c := a.Call(index); c != nil {
			a.Write(&c.Arguments, d.Get("arguments").Str)
		}
	}
}

// step reads a step, as it begins or whole.
func (a answer) step(s gjson.Result, index int64) {
	switch s.Get("type").Str {
	case "model_output":
		a.texts(&a.Text, s.Get("content"))
	case "thought":
		a.Begun = true
		a.texts(&a.Thinking, s.Get("summary"))
	case "function_call":
		if c := a.Open(index, s.Get("id").Str, s.Get("name").Str); c != nil {
			c.Initial = a.Keep(wire.ArgumentsText(s.Get("arguments")))
		}
	}
}

// texts writes the texts of a list of contents.
func (a answer) texts(to *strings.Builder, contents gjson.Result) {
	contents.ForEach(func(_, c gjson.Result) bool {
		a.Write(to, c.Get("text").Str)
		return !a.Broken
	})
}

// end reads an interaction: the JSON answer, or what the last event of a stream holds.
func (a answer) end(r gjson.Result) {
	a.Identify(r.Get("id").Str, r.Get("model").Str)
	a.Turn.Usage = readUsage(a.Turn.Usage, r.Get("usage"))
	a.Turn.Service = wire.ServiceTier(r.Get("service_tier").Str)
	if !a.Begun {
		for i, s := range said(r.Get("steps")) {
			a.step(s, int64(i))
		}
	}
	status := r.Get("status").Str
	a.Turn.StopReason = a.Keep(status)
	if status != "failed" {
		return
	}
	a.Fail(r.Get("errors.0"), "error")
}

// said returns the steps of an answer that the model has made: an answer in one piece
// may begin with what it was asked.
func said(steps gjson.Result) []gjson.Result {
	all := steps.Array()
	for i := len(all) - 1; i >= 0; i-- {
		if kind := all[i].Get("type").Str; kind == "user_input" || kind == "function_result" {
			return all[i+1:]
		}
	}
	return all
}

// read reads a JSON answer.
func (a answer) read(root gjson.Result) {
	if !root.Get("status").Exists() && !root.Get("steps").IsArray() {
		a.Fail(root, "")
		return
	}
	a.end(root)
}

// readUsage takes in a usage, which replaces one that came before. total_input_tokens
// holds what was read from the cache; what the provider's own tools have put into the
// prompt comes on top of it. total_output_tokens leaves the thoughts out.
func readUsage(known wire.Usage, u gjson.Result) wire.Usage {
	if !u.IsObject() {
		return known
	}
	prompt := wire.Count(u.Get("total_input_tokens"))
	read := min(wire.Count(u.Get("total_cached_tokens")), prompt)
	tools := wire.Count(u.Get("total_tool_use_tokens"))
	output := wire.Count(u.Get("total_output_tokens")) + wire.Count(u.Get("total_thought_tokens"))
	if prompt+output == 0 {
		return known
	}
	// Google does not report what it writes to a cache; package translate does, for the
	// upstreams behind it that do.
	write := min(wire.Count(u.Get("total_cache_write_tokens")), prompt-read)
	hour := min(wire.Count(u.Get("total_cache_write_1h_tokens")), write)
	return wire.Usage{Uncached: prompt - read - write + tools, Write5m: write - hour, Write1h: hour, Read: read, Output: output, Reported: true}
}
