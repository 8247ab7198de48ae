// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package gemini

import (
	"bytes"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/hidden"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// interception intercepts calls in answers of the Gemini API. Calls come whole, texts in
// pieces; a stream has no event at its end, and the reason why an answer ended may
// come with the last of its parts.
type interception struct {
	*hidden.Message
	pieces gathered
	call   *hidden.Entry // whose arguments come in pieces and are watched
}

func (r *interception) Next() { r.pieces, r.call = gathered{}, nil }

// Index implements [hidden.Interception]. No event is kept.
func (*interception) Index(hidden.Event) (int64, bool) { return 0, false }

// gathered gathers pieces of a text as the inside of a JSON string.
type gathered struct {
	text strings.Builder
	kind wire.Kind
}

// DeclareTool implements [hidden.Codec].
func (Codec) DeclareTool(name, description, schema string) []byte {
	return rawjson.Object("name", name, "description", description, "parameters", []byte(schema))
}

var codes = map[string]int{
	"INVALID_ARGUMENT": 400, "UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403, "NOT_FOUND": 404,
	"RESOURCE_EXHAUSTED": 429, "INTERNAL": 500, "UNAVAILABLE": 503, "DEADLINE_EXCEEDED": 504,
}

// Failure is a line of bare JSON: what stands in a data field is an answer to
// Google's SDKs, and one without content is passed over in silence.
func (r *interception) Failure(kind, message string) []byte {
	code := codes[kind]
	switch {
	case kind == "timeout_error":
		code, kind = 504, "DEADLINE_EXCEEDED"
	case code == 0:
		code, kind = 500, "INTERNAL"
	}
	return append(rawjson.Object("error", rawjson.Object("code", code, "message", message, "status", kind)), "\r\n\r\n"...)
}

func (r *interception) Event(f hidden.Event) {
	if !f.Root.Exists() {
		r.Pass(f.Event)
		return
	}
	r.envelope(f.Root)
	candidates := f.Root.Get("candidates")
	candidate := candidates.Get("0")
	switch {
	case r.Held: // more of the usage
	case candidate.Get("index").Int() != 0 || len(candidates.Array()) > 1: // several were asked for
		r.Now.Opaque = true
		r.Pass(f.Event)
	case !candidate.Exists():
		if len(r.Past) == 0 || f.Root.Get("error").Exists() {
			r.Pass(f.Event)
			return
		}
		r.Put("", r.chunk(f.Root, gjson.Result{}, nil, false))
	default:
		r.candidate(f, candidate)
	}
}

func (r *interception) envelope(root gjson.Result) {
	if r.ID == "" {
		r.ID = strings.Clone(root.Get("responseId").Raw)
	}
	if u := root.Get("usageMetadata"); u.IsObject() {
		r.Now.Usage, r.Now.Reasoning = readUsage(wire.Usage{}, u), u.Get("thoughtsTokenCount").Int()
	}
}

// candidate reads a chunk with a candidate in it.
func (r *interception) candidate(f hidden.Event, candidate gjson.Result) {
	shown, says, calls := r.parts(candidate)
	finish := candidate.Get("finishReason").Str
	if finish != "" {
		r.settle()
		r.Now.StopReason = strings.Clone(finish)
		if r.Now.Asks() && r.Now.Complete() {
			r.Held, r.Last = true, bytes.Clone(f.Data)
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
	case finish != "":
		r.Put("", r.chunk(f.Root, candidate, []byte(`{"text":""}`), false))
	}
}

// parts reads the parts of a chunk or a document. It returns those that
// the client gets, with commas between, whether they say anything, and how many
// it does not get.
func (r *interception) parts(candidate gjson.Result) (shown []byte, says bool, calls int) {
	candidate.Get("content.parts").ForEach(func(_, part gjson.Result) bool {
		call := part.Get("functionCall")
		plain := !call.Exists()
		part.ForEach(func(k, v gjson.Result) bool {
			plain = plain && (k.Str == "thought" || k.Str == "text" && v.Type == gjson.String)
			return true
		})
		if plain {
			r.gather(part)
			says = says || part.Get("text").Str != ""
			shown = rawjson.AppendElement(shown, []byte(part.Raw))
			return true
		}
		r.settle()
		p := hidden.Part{Kind: wire.KindOther, Raw: []byte(part.Raw)}
		switch {
		case call.Exists():
			p.Kind, p.Arguments = wire.KindToolUse, strings.Clone(call.Get("args").Raw)
			p.ID, p.Name = strings.Clone(call.Get("id").Str), strings.Clone(call.Get("name").Str)
			if p.Arguments == "" {
				p.Arguments = "{}"
			}
			// Arguments that come in pieces cannot be judged, nor repeated.
			r.Now.Opaque = r.Now.Opaque || p.Name == "" || call.Get("partialArgs").Exists() || call.Get("willContinue").Bool()
			p.Hidden = !r.Full && (r.Options.Hide(p.Name) || r.Options.Watch(p.Name) && r.Copies(p.Arguments))
			r.pieceOf(call, p.Name)
		case part.Get("text").Exists() && part.Get("thought").Bool():
			p.Kind = wire.KindThinking
		case part.Get("text").Exists():
			p.Kind = wire.KindText
		}
		if r.Begun++; r.Keep(hidden.BlockSize + len(p.Raw)) {
			r.Now.Parts = append(r.Now.Parts, p)
		}
		if p.Hidden {
			calls++
			return true
		}
		says = true
		shown = rawjson.AppendElement(shown, p.Raw)
		return true
	})
	return shown, says, calls
}

// pieceOf reads a piece of the arguments of a call, whose name stands in the first.
func (r *interception) pieceOf(call gjson.Result, name string) {
	more := call.Get("willContinue").Bool()
	if name != "" && more && r.Options.Watch(name) {
		e := r.Open(0, false, true)
		r.Release(&e, nil)
		r.call = &e
	}
	if r.call == nil {
		return
	}
	call.Get("partialArgs").ForEach(func(_, piece gjson.Result) bool {
		return r.Shares(r.call, piece.Get("stringValue").Str, nil, nil)
	})
	if !more {
		r.Judge(r.call, &hidden.Part{}, nil)
		r.call = nil
	}
}

// gather adds a piece of a text to what came before it.
func (r *interception) gather(part gjson.Result) {
	kind := wire.KindText
	if part.Get("thought").Bool() {
		kind = wire.KindThinking
	}
	if kind != r.pieces.kind {
		r.settle()
	}
	r.pieces.kind = kind
	if r.Keep(len(part.Raw)) {
		r.Write(&r.pieces.text, part.Get("text"))
	}
}

// settle makes a part of the pieces.
func (r *interception) settle() {
	if r.pieces.text.Len() == 0 {
		return
	}
	var thought any
	if r.pieces.kind == wire.KindThinking {
		thought = true
	}
	raw := rawjson.Object("text", rawjson.Quoted(r.pieces.text.String()), "thought", thought)
	r.Now.Parts = append(r.Now.Parts, hidden.Part{Kind: r.pieces.kind, Raw: raw})
	r.pieces = gathered{}
}

// chunk is a chunk of the client's one answer. Parts of nil stay as they
// are; one that is open does not tell why it ended.
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
			change["finishReason"], change["finishMessage"] = nil, nil
		}
		with["candidates"] = rawjson.Array(rawjson.Rewrite(candidate, []string{"content"}, change))
	}
	if len(r.Past) > 0 {
		if r.ID != "" && root.Get("responseId").Exists() {
			with["responseId"] = []byte(r.ID)
		}
		if root.Get("usageMetadata").IsObject() {
			with["usageMetadata"] = totalUsage(r)
		}
	}
	return rawjson.Rewrite(root, nil, with)
}

func (r *interception) Spill() { r.pieces = gathered{} } // calls come whole

func (r *interception) Flush() {
	root := gjson.ParseBytes(r.Last)
	r.Put("", r.chunk(root, root.Get("candidates.0"), []byte(`{"text":""}`), false))
	r.Ended = true
}

// totalUsage is the usage of all iterations.
func totalUsage(r *interception) []byte {
	thoughts := int64(0)
	for _, it := range r.Iterations() {
		thoughts += it.Reasoning
	}
	return appendUsage(nil, r.Usage(), thoughts)
}

func (r *interception) Document(body []byte) bool {
	root := gjson.ParseBytes(body)
	candidate := root.Get("candidates.0")
	if !candidate.Exists() {
		return false
	}
	r.envelope(root)
	r.Now.StopReason = candidate.Get("finishReason").Str
	r.Now.Opaque = root.Get("candidates.#").Int() != 1
	r.parts(candidate)
	r.settle()
	return true
}

func (r *interception) Join(last []byte) []byte {
	parts := r.Visibles()
	if len(parts) == 0 {
		parts = []byte(`{"text":""}`)
	}
	root := gjson.ParseBytes(last)
	return r.chunk(root, root.Get("candidates.0"), parts, false)
}

// Continuation implements [hidden.Codec].
func (Codec) Continuation(it *hidden.Iteration) []byte {
	message := rawjson.Object("role", "model", "parts", rawjson.Array(it.Raw()))
	return rawjson.AppendElement(message, toolResults(it))
}

func toolResults(it *hidden.Iteration) []byte {
	var parts []byte
	for _, p := range it.Hidden() {
		parts = rawjson.AppendElement(parts, toolResult(p))
	}
	return rawjson.Object("role", "user", "parts", rawjson.Array(parts))
}

func toolResult(p *hidden.Part) []byte {
	key := "output"
	if p.Failed {
		key = "error"
	}
	var id any
	if p.ID != "" {
		id = p.ID
	}
	return rawjson.Object("functionResponse", rawjson.Object("id", id, "name", p.Name, "response", rawjson.Object(key, p.Result)))
}
