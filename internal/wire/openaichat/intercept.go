// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openaichat

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/intercept"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// interception intercepts calls in answers of the chat completions API. One chunk may contain fragments
// of several calls, and text.
type interception struct {
	*intercept.Message
	role bool // the client has the message's role
}

// DeclareTool implements [intercept.Codec].
func (Codec) DeclareTool(name, description, schema string) []byte {
	return rawjson.Object("type", "function", "function", rawjson.Object("name", name, "description", description,
		"parameters", []byte(schema)))
}

func (r *interception) Failure(kind, message string) []byte {
	return framing.SSE{}.Append(nil, "", rawjson.Object("error", rawjson.Object("message", message, "type", kind, "param",
		[]byte("null"), "code", []byte("null"))))
}

// Of implements [intercept.Interception].
func (r *interception) Of(f intercept.Event) *intercept.Entry {
	if len(r.Pieces) != 1 || r.Pieces[0].Raw == "" || r.Says || r.Stopped || f.Root.Get("usage").IsObject() {
		return nil
	}
	return r.Pieces[0].Entry
}

// Event implements [intercept.Interception].
func (r *interception) Event(f intercept.Event) {
	choice := f.Root.Get("choices.0")
	switch {
	case choice.Get("index").Int() != 0: // the client asked for several choices
		r.Pass(f.Event)
	case choice.Exists():
		r.choice(f, choice)
	case r.Buffered:
		r.Last = bytes.Clone(f.Data) // the chunk for the usage
	case len(r.Past) == 0 || !f.Root.Get("usage").IsObject():
		r.Pass(f.Event)
	default:
		r.Put("", r.chunk(f.Root, gjson.Result{}, nil, nil))
	}
}

// choice writes a chunk with a choice.
func (r *interception) choice(f intercept.Event, choice gjson.Result) {
	delta := choice.Get("delta")
	calls := delta.Get("tool_calls").IsArray()
	if e := r.Of(f); e != nil {
		r.Show(e, f, r.Pieces[0].Text)
		return
	}
	shown, same := r.shown(f.Root, choice)
	if r.Stopped {
		r.FinishEntries()
		if r.Asks(f) {
			if r.Says {
				r.Put("", r.chunk(f.Root, choice, r.rest(delta, nil), []byte("null")))
			}
			return
		}
	}
	switch {
	case len(r.Past) == 0 && same:
		r.role = r.role || delta.Get("role").Exists()
		r.Pass(f.Event)
	case calls && len(shown) == 0 && !r.Says && !r.Stopped:
	default:
		r.Put("", r.chunk(f.Root, choice, r.rest(delta, shown), nil))
	}
}

// rest returns a delta with the given calls as its only calls.
func (r *interception) rest(delta gjson.Result, calls []byte) []byte {
	with := map[string][]byte{"tool_calls": nil}
	if len(calls) > 0 {
		with["tool_calls"] = rawjson.Array(calls)
	}
	if r.role {
		with["role"] = nil // the first chunk has the role
	}
	r.role = r.role || delta.Get("role").Exists()
	if delta.IsObject() {
		return rawjson.Rewrite(delta, []string{"tool_calls"}, with)
	}
	return rawjson.Rewrite(gjson.Parse("{}"), []string{"tool_calls"}, with)
}

// chunk returns a chunk with another delta, under the first answer's id.
func (r *interception) chunk(root, choice gjson.Result, delta, finish []byte) []byte {
	with := map[string][]byte{}
	if r.ID != "" {
		with["id"] = rawjson.Quote(r.ID)
	}
	if choice.Exists() {
		inner := map[string][]byte{"delta": delta}
		if finish != nil {
			inner["finish_reason"] = finish
		}
		with["choices"] = rawjson.Array(rawjson.Rewrite(choice, nil, inner))
	}
	if root.Get("usage").IsObject() && len(r.Past) > 0 {
		with["usage"] = r.TotalUsage("", usage.Append)
	}
	return rawjson.Rewrite(root, nil, with)
}

// Tell implements [intercept.Interception], for a chunk with one call and nothing else.
func (r *interception) Tell(f intercept.Event, e *intercept.Entry) {
	choice := f.Root.Get("choices.0")
	delta := choice.Get("delta")
	item := delta.Get("tool_calls.0")
	fragment := numbered(item, e.Client)
	if len(r.Past) == 0 && f.Raw != nil && string(fragment) == item.Raw {
		r.role = r.role || delta.Get("role").Exists()
		r.Pass(f.Event)
		return
	}
	r.Put("", r.chunk(f.Root, choice, r.rest(delta, fragment), nil))
}

// numbered returns a fragment of a call with the client's index.
func numbered(item gjson.Result, client int) []byte {
	if index := item.Get("index"); index.Exists() && int64(client) == index.Int() {
		return []byte(item.Raw)
	}
	return rawjson.Rewrite(item, []string{"index"}, map[string][]byte{"index": strconv.AppendInt(nil, int64(client), 10)})
}

// shown returns the client's fragments of calls, and whether these are all, unchanged.
func (r *interception) shown(root, choice gjson.Result) (fragments []byte, same bool) {
	same = true
	for _, p := range r.Pieces {
		if p.Raw == "" { // function_call from older servers
			continue
		}
		item := gjson.Parse(p.Raw)
		client := int(item.Get("index").Int()) + r.Shift()
		if p.Entry != nil {
			if !r.Shares(p.Entry, p.Text, func() []byte { return alone(root, choice, p.Raw) }) {
				same = false
				continue
			}
			client = p.Entry.Client
		}
		fragment := numbered(item, client)
		same = same && string(fragment) == p.Raw
		fragments = rawjson.AppendElement(fragments, fragment)
	}
	return fragments, same
}

// alone returns a chunk reduced to one fragment of a call.
func alone(root, choice gjson.Result, fragment string) []byte {
	delta := rawjson.Object("tool_calls", rawjson.Array([]byte(fragment)))
	return rawjson.Rewrite(root, nil, map[string][]byte{
		"choices": rawjson.Array(rawjson.Rewrite(choice, nil,
			map[string][]byte{"delta": delta, "finish_reason": []byte("null")})), "usage": nil,
	})
}

// Part implements [intercept.Interception]. All texts of one kind become one part.
func (r *interception) Part(e *intercept.Entry) intercept.Part {
	if e.Kind != wire.KindToolUse {
		text := e.Text.String()
		for i := range r.Now.Parts {
			if p := &r.Now.Parts[i]; p.Kind == e.Kind {
				p.Raw = append(append(p.Raw[:len(p.Raw)-1], text...), '"')
				return intercept.Part{}
			}
		}
		return intercept.Part{Kind: e.Kind, Name: e.Name, Raw: rawjson.Quoted(text)}
	}
	kind, text := "function", "arguments"
	if e.Free {
		kind, text = "custom", "input"
	}
	input := e.Input()
	call := rawjson.Object("id", e.ID, "type", kind, kind, rawjson.Object("name", e.Name, text, input))
	has := map[string]bool{}
	gjson.Parse("{" + strings.Join(e.Pieces, ",") + "}").ForEach(func(k, v gjson.Result) bool {
		if !has[k.Str] { // servers may repeat the member in each fragment
			has[k.Str] = true
			call = append(append(append(append(call[:len(call)-1], ','), k.Raw...), ':'), v.Raw...)
			call = append(call, '}')
		}
		return true
	})
	return intercept.Part{Kind: wire.KindToolUse, ID: e.ID, Name: e.Name, Arguments: input, Raw: call}
}

func (r *interception) Flush() string {
	root := gjson.ParseBytes(r.Last)
	choice := root.Get("choices.0")
	if choice.Exists() {
		r.Put("", r.chunk(root, choice, []byte("{}"), []byte(`"stop"`)))
	} else { // the usage came last
		r.Put("", rawjson.Rewrite(root, []string{"choices"}, map[string][]byte{
			"id": rawjson.Quote(r.ID), "choices": []byte(`[{"index":0,"delta":{},"finish_reason":"stop"}]`), "usage": nil,
		}))
		r.Put("", r.chunk(root, choice, nil, nil))
	}
	r.Put("", []byte("[DONE]"))
	return "stop"
}

func (r *interception) Join(last []byte) []byte {
	var content, reasoning, calls []byte
	key := ""
	for _, it := range r.Iterations() {
		for i := range it.Parts {
			switch p := &it.Parts[i]; {
			case p.Intercepted:
			case p.Kind == wire.KindText:
				content = append(content, p.Raw[1:len(p.Raw)-1]...)
			case p.Kind == wire.KindThinking:
				key = p.Name
				reasoning = append(reasoning, p.Raw[1:len(p.Raw)-1]...)
			default:
				calls = rawjson.AppendElement(calls, p.Raw)
			}
		}
	}
	root := gjson.ParseBytes(last)
	choice := root.Get("choices.0")
	message := map[string][]byte{"tool_calls": nil, "content": []byte("null")}
	order := []string{"content", "tool_calls"}
	if len(calls) > 0 {
		message["tool_calls"] = rawjson.Array(calls)
	}
	if len(content) > 0 || len(calls) == 0 {
		message["content"] = rawjson.Quoted(content)
	}
	if key != "" {
		message[key] = rawjson.Quoted(reasoning)
		order = append(order, key)
	}
	inner := map[string][]byte{"message": rawjson.Rewrite(choice.Get("message"), order, message)}
	if r.Now.Asks() {
		inner["finish_reason"] = []byte(`"stop"`)
	}
	with := map[string][]byte{"choices": rawjson.Array(rawjson.Rewrite(choice, nil, inner))}
	if r.ID != "" {
		with["id"] = rawjson.Quote(r.ID)
	}
	if len(r.Past) > 0 && root.Get("usage").IsObject() {
		with["usage"] = r.TotalUsage("", usage.Append)
	}
	return rawjson.Rewrite(root, nil, with)
}
