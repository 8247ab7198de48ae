// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"bytes"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// SkipValidator is the placeholder for a signature in a history that another model wrote
// (Gemini API, "Thought signatures").
const SkipValidator = "skip_thought_signature_validator"

// Remove removes sealed reasoning from the body of an untranslated request, where no API can read
// the seal. It also removes messages with nothing else, references to the reasoning, and a
// thinking budget that the API refuses without it. Calls and all other bytes stay. A body without
// a seal is returned unchanged.
func Remove(body []byte) []byte {
	if !wire.HasSeal(body) {
		return body
	}
	r := remover{gone: map[string]bool{}}
	var patches []wire.Member
	for _, name := range [...]string{"messages", "input", "contents"} {
		if list := r.list(gjson.GetBytes(body, name), r.message); list != nil {
			patches = append(patches, wire.Member{Name: name, Value: list})
		}
	}
	// in requests for a token count
	for _, name := range [...]string{"generateContentRequest", "generate_content_request"} {
		if inner := gjson.GetBytes(body, name); inner.IsObject() {
			patches = append(patches, wire.Member{Name: name, Value: Remove([]byte(inner.Raw))})
		}
	}
	if r.unthought && gjson.GetBytes(body, "thinking.type").Str == "enabled" {
		// "When `thinking` is enabled, a final `assistant` message must start with a thinking block".
		patches = append(patches, wire.Member{Name: "thinking", Value: []byte(`{"type":"disabled"}`)})
	}
	out, err := wire.Patch(body, patches...)
	if err != nil {
		return body
	}
	return out
}

// remover goes through the messages of one request.
type remover struct {
	gone      map[string]bool // ids of items that were removed
	unthought bool            // thinking was removed since the last prompt of the user
}

// isSeal reports whether a value was made by [Sealed.Seal].
func isSeal(v gjson.Result) bool { return strings.HasPrefix(v.Str, wire.SealPrefix) }

// list returns a list with the results of edit, without elements for which it returns nil.
func (r *remover) list(v gjson.Result, edit func(gjson.Result) []byte) []byte {
	if !v.IsArray() {
		return nil
	}
	raw, changed, kept := []byte(v.Raw), false, false
	var out []byte
	from := 1 // end of the last element that stays
	e := rawjson.List(raw, 0)
	for e.Next() {
		start, end := e.At, rawjson.SkipValue(raw, e.At)
		if end < 0 {
			return nil
		}
		element := gjson.ParseBytes(raw[start:end])
		with := edit(element)
		switch {
		case with == nil:
			changed = true
		case !kept: // the elements before it took the comma with them
			out = append(append(append(out, raw[:1]...), raw[1:1+blanks(raw[1:])]...), with...)
			kept = true
		default:
			out = append(append(out, separator(raw[from:start])...), with...)
		}
		if with != nil {
			changed = changed || !bytes.Equal(with, raw[start:end])
			from = end
		}
		e.At = end
	}
	switch {
	// An unchanged list keeps its bytes.
	case e.Bad || !changed:
		return nil
	case !kept:
		return []byte("[]")
	}
	end := bytes.TrimRight(raw[:len(raw)-1], " \t\r\n")
	return append(out, raw[len(end):]...)
}

// blanks counts the leading white space.
func blanks(b []byte) int { return len(b) - len(bytes.TrimLeft(b, " \t\r\n")) }

// separator returns the comma and white space between two elements, without removed elements.
func separator(between []byte) []byte {
	comma := bytes.IndexByte(between, ',')
	return between[:comma+1+blanks(between[comma+1:])]
}

// message edits a message, or an item or a step.
func (r *remover) message(m gjson.Result) []byte {
	kind := m.Get("type").Str
	if isSeal(m.Get("encrypted_content")) || kind == "thought" && isSeal(m.Get("signature")) {
		if id := m.Get("id").Str; id != "" {
			r.gone[id] = true
		}
		return nil
	}
	if (kind == "item_reference" || kind == "") && !m.Get("role").Exists() && r.gone[m.Get("id").Str] {
		return nil
	}
	var patches []wire.Member
	for _, name := range [...]string{"content", "parts", "reasoning_details"} {
		list := r.list(m.Get(name), r.part)
		switch {
		case list == nil:
			continue
		case name == "reasoning_details" && string(list) == "[]":
			list = nil
		case string(list) == "[]":
			return nil
		}
		patches = append(patches, wire.Member{Name: name, Value: list})
	}
	switch m.Get("role").Str {
	case "assistant":
		r.unthought = r.unthought || len(patches) > 0
	case "user":
		if !m.Get(`content.#(type=="tool_result")`).Exists() {
			r.unthought = false
		}
	}
	out, err := wire.Patch([]byte(m.Raw), patches...)
	if err != nil {
		return []byte(m.Raw)
	}
	return out
}

// part edits a block, a part, or a detail of reasoning.
func (r *remover) part(p gjson.Result) []byte {
	if isSeal(p.Get("data")) || isSeal(p.Get("signature")) {
		switch p.Get("type").Str {
		case "thinking", "redacted_thinking", "reasoning.encrypted":
			return nil
		}
	}
	out := []byte(p.Raw)
	for _, name := range [...]string{"thoughtSignature", "thought_signature"} {
		if !isSeal(p.Get(name)) {
			continue
		}
		signature := wire.Member{Name: name}
		switch {
		case p.Get("thought").Bool() || p.Get("text").Exists() && p.Get("text").Str == "":
			return nil
		case p.Get("functionCall").Exists() || p.Get("function_call").Exists():
			signature.Value = []byte(`"` + SkipValidator + `"`)
		}
		if patched, err := wire.Patch(out, signature); err == nil {
			out = patched
		}
	}
	return out
}
