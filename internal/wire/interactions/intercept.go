// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package interactions

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/intercept"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// interception intercepts calls in answers of the Interactions API. Answers and requests are lists of
// steps, so intercepted calls and their results go between the client's steps.
type interception struct{ intercept.Numbered }

// DeclareTool implements [intercept.Codec].
func (Codec) DeclareTool(name, description, schema string) []byte {
	return rawjson.Object("type", "function", "name", name, "description", description, "parameters", []byte(schema))
}

func (r *interception) Failure(kind, message string) []byte {
	if kind == "timeout_error" {
		kind = "deadline_exceeded"
	}
	return framing.SSE{}.Append(nil, "error", rawjson.Object("event_type", "error", "error",
		rawjson.Object("message", message, "code", kind)))
}

// Tell implements [intercept.Interception].
func (r *interception) Tell(f intercept.Event, e *intercept.Entry) { r.Renumber(f, e, nil) }

// end returns the last event with the steps that the client has, nil if nothing changes.
func (r *interception) end(last intercept.Event) []byte {
	if r.Full || len(r.Past) == 0 && len(r.Now.Intercepted()) == 0 {
		return nil
	}
	return r.complete(last.Root)
}

func (r *interception) complete(root gjson.Result) []byte {
	return rawjson.Rewrite(root, nil, map[string][]byte{"interaction": r.interaction(root.Get("interaction"), false)})
}

func (r *interception) Flush() string {
	root := gjson.ParseBytes(r.Last)
	r.Put(root.Get("event_type").Str, r.complete(root))
	r.Put("done", []byte("[DONE]"))
	return "completed"
}

// Part implements [intercept.Interception].
func (r *interception) Part(e *intercept.Entry) intercept.Part {
	start := gjson.Parse(e.Raw)
	with := map[string][]byte{}
	var order []string
	set := func(key string, value []byte) { with[key], order = value, append(order, key) }
	for _, piece := range e.Pieces { // members from deltas
		gjson.Parse(piece).ForEach(func(k, v gjson.Result) bool {
			if k.Str != "type" {
				set(k.Str, []byte(v.Raw))
			}
			return true
		})
	}
	if e.Whole == "" {
		list, began := "content", ""
		if start.Get("type").Str == "thought" {
			list = "summary"
		}
		start.Get(list).ForEach(func(_, c gjson.Result) bool {
			began += rawjson.Inner(c.Get("text"))
			return true
		})
		if text := e.Text.String(); text != began {
			set(list, rawjson.Array(rawjson.Object("type", "text", "text", rawjson.Quoted(text))))
		}
		if e.Signature.Len() > 0 {
			set("signature", rawjson.Quote(e.Signature.String()))
		}
		if input := e.Input(); e.Arguments.Len() > 0 && rawjson.ValidObject(input) {
			set("arguments", []byte(input))
		}
	}
	if len(with) == 0 {
		return partOf(start)
	}
	return partOf(gjson.Parse(rawjson.View(rawjson.Rewrite(start, order, with))))
}

// partOf returns a step of an answer in its form in a request.
func partOf(step gjson.Result) intercept.Part {
	p := intercept.Part{Kind: wire.KindOther, Raw: []byte(step.Raw)}
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

// interaction returns an interaction with the client's steps and the usage of all iterations.
func (r *interception) interaction(it gjson.Result, whole bool) []byte {
	// The id of the last iteration stays: the provider stores all iterations under it.
	calls := slices.ContainsFunc(r.Iterations(), func(it intercept.Iteration) bool {
		return slices.ContainsFunc(it.Parts, func(p intercept.Part) bool { return !p.Intercepted && p.Kind.IsCall() })
	})
	with := map[string][]byte{}
	if whole || it.Get("steps").Exists() {
		with["steps"] = rawjson.Array(r.Visibles())
	}
	if !calls && it.Get("status").Str == "requires_action" { // the action concerns only intercepted calls
		with["status"] = []byte(`"completed"`)
	}
	if len(r.Past) > 0 && it.Get("usage").IsObject() {
		with["usage"] = r.TotalUsage("", usage.Append)
	}
	return rawjson.Rewrite(it, []string{"steps"}, with)
}

func (r *interception) Join(last []byte) []byte {
	return r.interaction(gjson.ParseBytes(last), true)
}

// Continuation implements [intercept.Codec]. It repeats the steps of an answer.
func (Codec) Continuation(it *intercept.Iteration) []byte {
	return rawjson.AppendElement(it.Raw(), toolResults(it))
}

// toolResults returns the results of the intercepted calls.
func toolResults(it *intercept.Iteration) []byte {
	var out []byte
	for _, p := range it.Intercepted() {
		var failed any
		if p.Failed {
			failed = true
		}
		out = rawjson.AppendElement(out, rawjson.Object("type", "function_result", "name", p.Name, "call_id", p.ID,
			"is_error", failed, "result", p.Result))
	}
	return out
}
