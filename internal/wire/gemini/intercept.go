// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package gemini

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/intercept"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// interception intercepts calls in answers of the Gemini API. A stream has no event at its end. The
// finishReason may come together with the last parts.
type interception struct {
	*intercept.Message
	call *intercept.Entry // the watched call with streamed arguments
}

// DeclareTool implements [intercept.Codec].
func (Codec) DeclareTool(name, description, schema string) []byte {
	return rawjson.Object("name", name, "description", description, "parameters", []byte(schema))
}

var codes = map[string]int{
	"INVALID_ARGUMENT": 400, "UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403, "NOT_FOUND": 404,
	"RESOURCE_EXHAUSTED": 429, "INTERNAL": 500, "UNAVAILABLE": 503, "DEADLINE_EXCEEDED": 504,
}

// Failure implements [intercept.Interception]. It returns a line of bare JSON.
func (r *interception) Failure(kind, message string) []byte {
	code := codes[kind]
	switch {
	case kind == "timeout_error":
		code, kind = 504, "DEADLINE_EXCEEDED"
	case code == 0:
		code, kind = 500, "INTERNAL"
	}
	// Google's SDKs read every data field as an answer and ignore one without content.
	return append(rawjson.Object("error", rawjson.Object("code", code, "message", message, "status", kind)), "\r\n\r\n"...)
}

// Of implements [intercept.Interception]. No event is kept back.
func (*interception) Of(intercept.Event) *intercept.Entry { return nil }

// Tell implements [intercept.Interception].
func (*interception) Tell(intercept.Event, *intercept.Entry) {}

// Event implements [intercept.Interception].
func (r *interception) Event(f intercept.Event) {
	if r.Buffered { // more usage after the end
		return
	}
	candidates := f.Root.Get("candidates")
	candidate := candidates.Get("0")
	r.FinishEntries()
	switch {
	case candidate.Get("index").Int() != 0 || candidates.Get("1").Exists(): // the client asked for several candidates
		r.Pass(f.Event)
	case candidate.Exists():
		r.candidate(f, candidate)
	case len(r.Past) == 0 || f.Root.Get("error").Exists():
		r.Pass(f.Event)
	default:
		r.Put("", r.chunk(f.Root, gjson.Result{}, nil, false))
	}
}

// candidate writes a chunk with a candidate.
func (r *interception) candidate(f intercept.Event, candidate gjson.Result) {
	shown, says, calls := r.parts(candidate)
	if r.Stopped {
		if r.Asks(f) {
			if says {
				r.Put("", r.chunk(f.Root, candidate, shown, true))
			}
			return
		}
		r.Ended = true
	}
	switch {
	case calls == 0 && len(r.Past) == 0:
		r.Pass(f.Event)
	case calls == 0:
		r.Put("", r.chunk(f.Root, candidate, nil, false))
	case len(shown) > 0:
		r.Put("", r.chunk(f.Root, candidate, shown, false))
	case r.Stopped:
		r.Put("", r.chunk(f.Root, candidate, []byte(`{"text":""}`), false))
	}
}

// parts returns the visible parts of a chunk, whether they have content, and the number of intercepted parts.
func (r *interception) parts(candidate gjson.Result) (shown []byte, says bool, hides int) {
	says = r.Says
	entries := r.Pieces
	if r.Full { // nothing more is intercepted
		entries = nil
	}
	candidate.Get("content.parts").ForEach(func(_, part gjson.Result) bool {
		if len(entries) > 0 && !isPlain(part) {
			e := entries[0].Entry
			entries = entries[1:]
			if call := part.Get("functionCall"); call.Exists() {
				r.pieceOf(call)
			}
			if e.Intercepted {
				hides++
				return true
			}
			says = true
		}
		shown = rawjson.AppendElement(shown, []byte(part.Raw))
		return true
	})
	return shown, says, hides
}

// Part implements [intercept.Interception].
func (r *interception) Part(e *intercept.Entry) intercept.Part {
	if e.Whole == "" {
		var thought any
		if e.Kind == wire.KindThinking {
			thought = true
		}
		return intercept.Part{Kind: e.Kind, Raw: rawjson.Object("text", rawjson.Quoted(e.Text.String()), "thought", thought)}
	}
	part := gjson.Parse(e.Whole)
	p := intercept.Part{Kind: wire.KindOther, Raw: []byte(part.Raw)}
	switch call := part.Get("functionCall"); {
	case call.Exists():
		p.Kind, p.ID, p.Name, p.Arguments = wire.KindToolUse, e.ID, e.Name, strings.Clone(call.Get("args").Raw)
		if p.Arguments == "" {
			p.Arguments = "{}"
		}
	case part.Get("text").Exists() && part.Get("thought").Bool():
		p.Kind = wire.KindThinking
	case part.Get("text").Exists():
		p.Kind = wire.KindText
	}
	return p
}

// pieceOf reads a piece of a call's streamed arguments. The first piece has the name of the call.
func (r *interception) pieceOf(call gjson.Result) {
	name, more := call.Get("name").Str, call.Get("willContinue").Bool()
	if name != "" && more && r.Options.Watch(name) {
		r.call = r.Watched()
	}
	if r.call == nil {
		return
	}
	call.Get("partialArgs").ForEach(func(_, piece gjson.Result) bool {
		return r.Shares(r.call, piece.Get("stringValue").Str, nil)
	})
	if !more {
		r.Unwatch(r.call)
		r.call = nil
	}
}

// chunk returns a chunk of the client's answer. Nil parts leave the chunk's parts unchanged.
func (r *interception) chunk(root, candidate gjson.Result, parts []byte, open bool) []byte {
	with := map[string][]byte{}
	if candidate.Exists() {
		change := map[string][]byte{}
		if parts != nil {
			content := candidate.Get("content")
			if !content.IsObject() {
				content = gjson.Parse(`{"role":"model"}`)
			}
			change["content"] = rawjson.Rewrite(content, []string{"parts"}, map[string][]byte{"parts": rawjson.Array(parts)})
		}
		if open {
			// The answer continues in another iteration.
			change["finishReason"], change["finishMessage"] = nil, nil
		}
		with["candidates"] = rawjson.Array(rawjson.Rewrite(candidate, []string{"content"}, change))
	}
	if len(r.Past) > 0 {
		if r.ID != "" && root.Get("responseId").Exists() {
			with["responseId"] = rawjson.Quote(r.ID)
		}
		if root.Get("usageMetadata").IsObject() {
			with["usageMetadata"] = totalUsage(r)
		}
	}
	return rawjson.Rewrite(root, nil, with)
}

func (r *interception) Flush() string {
	root := gjson.ParseBytes(r.Last)
	r.Put("", r.chunk(root, root.Get("candidates.0"), []byte(`{"text":""}`), false))
	return r.Now.StopReason
}

// totalUsage returns the usage of all iterations.
func totalUsage(r *interception) []byte {
	thoughts := int64(0)
	for _, it := range r.Iterations() {
		thoughts += it.Reasoning
	}
	return appendUsage(nil, r.Usage(), thoughts)
}

func (r *interception) Join(last []byte) []byte {
	parts := r.Visibles()
	if len(parts) == 0 {
		parts = []byte(`{"text":""}`)
	}
	root := gjson.ParseBytes(last)
	return r.chunk(root, root.Get("candidates.0"), parts, false)
}

// Continuation implements [intercept.Codec].
func (Codec) Continuation(it *intercept.Iteration) []byte {
	message := rawjson.Object("role", "model", "parts", rawjson.Array(it.Raw()))
	return rawjson.AppendElement(message, toolResults(it))
}

func toolResults(it *intercept.Iteration) []byte {
	var parts []byte
	for _, p := range it.Intercepted() {
		parts = rawjson.AppendElement(parts, toolResult(p))
	}
	return rawjson.Object("role", "user", "parts", rawjson.Array(parts))
}

func toolResult(p *intercept.Part) []byte {
	key := "output"
	if p.Failed {
		key = "error"
	}
	var id any
	if p.ID != "" {
		id = p.ID
	}
	return rawjson.Object("functionResponse", rawjson.Object("id", id, "name", p.Name, "response",
		rawjson.Object(key, p.Result)))
}
