// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openairesponses

import (
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/flat"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/intercept"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// interception intercepts calls in answers of the Responses API. Answers and requests are lists of
// items, so intercepted calls and their results go between the client's items.
type interception struct {
	intercept.Numbered
	head head
	// The number of the client's next event. It is set if numbered is.
	sequence int64
	numbered bool
}

// head has the raw values of the answer's members in the first event of a stream.
type head struct{ id, created, model string }

// DeclareTool implements [intercept.Codec].
func (Codec) DeclareTool(name, description, schema string) []byte {
	return rawjson.Object("type", "function", "name", name, "description", description, "parameters", []byte(schema),
		"strict", false)
}

func (r *interception) Failure(kind, message string) []byte {
	if kind == "api_error" || kind == "timeout_error" {
		kind = "server_error"
	}
	members := []any{"object", "response", "status", "failed"}
	for _, m := range [...]struct{ key, raw string }{
		{"id", r.head.id},
		{"created_at", r.head.created},
		{"model", r.head.model},
	} {
		if m.raw != "" {
			members = append(members, m.key, []byte(m.raw))
		}
	}
	members = append(members, "error", rawjson.Object("code", kind, "message", message), "incomplete_details",
		[]byte("null"), "output", []byte("[]"), "usage", []byte("null"))
	event := rawjson.Object("type", "response.failed", "sequence_number", r.sequence, "response",
		rawjson.Object(members...))
	return framing.SSE{}.Append(nil, "response.failed", event)
}

// Tell implements [intercept.Interception]. It numbers the client's events from the first number on.
func (r *interception) Tell(f intercept.Event, e *intercept.Entry) {
	if response := f.Root.Get("response"); r.head.id == "" && response.Exists() {
		r.head = head{
			strings.Clone(response.Get("id").Raw), strings.Clone(response.Get("created_at").Raw),
			strings.Clone(response.Get("model").Raw),
		}
	}
	var with map[string][]byte
	if n := f.Root.Get("sequence_number"); n.Exists() {
		if !r.numbered {
			r.numbered, r.sequence = true, n.Int()
		}
		if n.Int() != r.sequence {
			with = map[string][]byte{"sequence_number": strconv.AppendInt(nil, r.sequence, 10)}
		}
		r.sequence++
	}
	r.Renumber(f, e, with)
}

// end returns the last event with all items that the client has, nil if nothing changes.
func (r *interception) end(last intercept.Event) []byte {
	r.Now.Stateless = last.Root.Get("response.store").Type == gjson.False
	if r.Full || len(r.Past) == 0 && len(r.Now.Intercepted()) == 0 {
		return nil
	}
	return r.complete(last.Root)
}

func (r *interception) complete(root gjson.Result) []byte {
	with := map[string][]byte{"response": r.response(root.Get("response"))}
	if root.Get("sequence_number").Exists() {
		with["sequence_number"] = strconv.AppendInt(nil, r.sequence, 10)
	}
	return rawjson.Rewrite(root, nil, with)
}

func (r *interception) Flush() string {
	root := gjson.ParseBytes(r.Last)
	r.Put(root.Get("type").Str, r.complete(root))
	return r.Now.StopReason
}

// Part implements [intercept.Interception]. It takes an item from the event at its end.
func (r *interception) Part(e *intercept.Entry) intercept.Part {
	if e.Whole == "" {
		return intercept.Part{}
	}
	return partOf(gjson.Parse(e.Whole))
}

// partOf returns an item of an answer in its form in a request.
func partOf(item gjson.Result) intercept.Part {
	p := intercept.Part{
		Kind: wire.KindOther, Raw: []byte(item.Raw), ID: strings.Clone(item.Get("call_id").Str),
		Name: strings.Clone(item.Get("name").Str),
	}
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

// response returns a response with the client's items and the usage of all iterations.
func (r *interception) response(response gjson.Result) []byte {
	// The id of the last iteration stays: the upstream stores all iterations under it.
	with := map[string][]byte{"output": rawjson.Array(r.Visibles())}
	if len(r.Past) > 0 && response.Get("usage").IsObject() {
		with["usage"] = r.TotalUsage("", usage.Append)
	}
	return rawjson.Rewrite(response, []string{"output"}, with)
}

func (r *interception) Join(last []byte) []byte {
	return r.response(gjson.ParseBytes(last))
}

// Continuation implements [intercept.Codec]. It repeats the items of an answer.
func (Codec) Continuation(it *intercept.Iteration) []byte {
	// The upstream cannot use reasoning that it neither stored nor encrypted. Ids of items from the
	// same answer would make it demand this reasoning, so they go too.
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

func bareReasoning(p *intercept.Part) bool {
	if p.Kind != wire.KindReasoning {
		return false
	}
	item := gjson.ParseBytes(p.Raw)
	return item.Get("encrypted_content").Str == "" && len(item.Get("content").Array()) == 0
}

// toolResults returns the outputs of the intercepted calls.
func toolResults(it *intercept.Iteration) []byte {
	var out []byte
	for _, p := range it.Intercepted() {
		kind := gjson.GetBytes(p.Raw, "type").Str
		members := []any{"type", kind + "_output", "call_id", p.ID}
		switch kind { // outputs of the provider's own tools have forms of their own
		case "shell_call":
			outcome := rawjson.Object("type", "exit", "exit_code", 1)
			members = append(members, "output", rawjson.Array(rawjson.Object("stdout", "", "stderr", p.Result, "outcome",
				outcome)))
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

// Reinsert implements [intercept.Codec].
func (Codec) Reinsert(v *wire.View, message int, its []intercept.Iteration) ([]wire.Edit, bool) {
	return flat.Reinsert(v, message, its, items)
}
