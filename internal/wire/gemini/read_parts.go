// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package gemini

import (
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/seal"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

func (r *reader) parts(v rawjson.Value, content int) ([]translate.Part, error) {
	n := len(r.Parts)
	for i, v := range r.list(v) {
		r.Enter("parts", i)
		var p translate.Part
		var signature string
		var call, response, inline, file rawjson.Value
		thought, known := false, false
		for key, m := range r.Members(v) {
			switch camel(key) {
			case "text":
				p.Text, known = m.Text(), true
			case "thought":
				thought = m.IsTrue()
			case "thoughtSignature":
				if signature = m.Str(); signature == SkipValidator || signature == unsignedCall {
					signature = ""
				}
			case "functionCall":
				call, known = m, true
			case "functionResponse":
				response, known = m, true
			case "inlineData":
				inline, known = m, true
			case "fileData":
				file, known = m, true
			default:
				r.DropUsed(key, m)
			}
		}
		var err error
		sealed, foreign := seal.Open(signature)
		switch {
		case !known:
			r.Leave()
			continue
		case call != nil:
			p, err = r.call(call, content, i)
		case response != nil:
			p, err = r.response(response, content)
		case inline != nil:
			p.Kind = translate.MediaPart
			p.Media = &translate.Media{
				Field: r.Path("inlineData"), Type: member(inline, "mimeType").Str(),
				Data: inline.Member("data").Text(), Name: member(inline, "displayName").Text(),
			}
			if p.Media.Data.Empty() {
				err = r.Malformed("inlineData.data")
			}
		case file != nil:
			p.Kind = translate.MediaPart
			p.Media = &translate.Media{
				Field: r.Path("fileData"), Type: member(file, "mimeType").Str(),
				URL: member(file, "fileUri").Text(),
			}
			switch uri := string(p.Media.URL); {
			case uri == "":
				err = r.Malformed("fileData.fileUri")
			case strings.Contains(uri, "generativelanguage.googleapis.com"), strings.HasPrefix(uri, "gs:"):
				err = r.Refuse("fileData", translate.ForeignFile)
			}
		case thought && foreign:
			r.Add(keptThought(sealed))
			r.Leave()
			continue
		case thought:
			p = r.Thinking(p.Text, signature)
		}
		if err != nil {
			return nil, err
		}
		switch {
		case foreign:
			r.Add(keptThought(sealed))
		case !thought:
			p.Signature = signature
		}
		r.Add(p)
		r.Leave()
	}
	return r.Gather(n), nil
}

// keptThought returns reasoning from the seal that a client kept on the call after it.
func keptThought(s seal.Sealed) translate.Part {
	return translate.Part{Kind: translate.ThinkingPart, Text: rawjson.Escaped(s.Text), Sealed: &s}
}

// once removes duplicate thoughts from the parts of a message by the model.
func once(said []translate.Part) []translate.Part {
	isPlain := func(p translate.Part) bool {
		return p.Kind == translate.ThinkingPart && p.Sealed.Data == "" && p.Sealed.Format == wire.Gemini
	}
	out, at, from := said[:0], -1, 0 // index of the first plain thought since from
	for _, p := range said {
		switch {
		case p.Kind == translate.CallPart:
			at, from = -1, len(out)+1 // only thoughts since the last call count
		case isPlain(p) && at < 0:
			at = len(out)
		case p.Kind == translate.ThinkingPart && p.Sealed.Format != wire.Gemini:
			switch {
			// A seal contains the text of its reasoning, and the client may have sent this text as plain thoughts
			// as well.
			case at >= 0 && !p.Text.Empty():
				out = append(out[:at], slices.DeleteFunc(out[at:], isPlain)...)
			case !p.Sealed.Late:
				at = from // before the text
			default:
				at = len(out)
			}
			out = slices.Insert(out, at, p)
			at, from = -1, len(out)
			continue
		}
		out = append(out, p)
	}
	return out
}

// member returns a member by its name in camel case, in either spelling.
func member(v rawjson.Value, name string) rawjson.Value {
	for key, m := range v.Members() {
		if camel(key) == name {
			return m
		}
	}
	return nil
}

// call reads a call. A call without an id gets one from its position.
func (r *reader) call(v rawjson.Value, content, part int) (translate.Part, error) {
	p := translate.Part{
		Kind: translate.CallPart, ID: r.Member(v, "id").Str(),
		Input: translate.CallInput(r.Member(v, "args")),
	}
	r.DropIn("functionCall", v, "id", "name", "args")
	p.Tool.Name = r.Member(v, "name").Str()
	if p.Tool.Name == "" {
		return p, r.Malformed("functionCall.name")
	}
	if p.ID == "" {
		p.ID = "call_" + strconv.Itoa(content) + "_" + strconv.Itoa(part)
	}
	r.pending.add(p.ID, p.Tool.Name)
	return p, nil
}

func (r *reader) response(v rawjson.Value, content int) (translate.Part, error) {
	r.DropIn("functionResponse", v, "id", "name", "response", "parts")
	id, name := r.Member(v, "id").Str(), r.Member(v, "name").Str()
	id, ok := r.pending.answer(id, name)
	if !ok {
		return translate.Part{}, r.Refuse("functionResponse", "it answers no call before it")
	}
	p := translate.Part{Kind: translate.ResultPart, ID: id, Tool: translate.ToolName{Name: name}}
	t, failed := result(r.Member(v, "response"))
	p.Failed = failed
	if !t.Empty() {
		p.Content = []translate.Part{{Text: t}}
	}
	media, err := r.parts(r.Member(v, "parts"), content)
	if err != nil {
		return p, err
	}
	p.Content = append(p.Content, media...)
	return p, nil
}

// result returns the text of a response object.
func result(v rawjson.Value) (t rawjson.Text, failed bool) {
	if key, only := soleText(v); only != nil {
		return only.Text(), key == "error"
	}
	if v.Absent() {
		return nil, false
	}
	// An object with other members is its own text.
	return rawjson.Escaped(string(v)), false
}

// soleText returns the only member of an object that merely wraps a text, nil for other objects.
func soleText(v rawjson.Value) (key string, only rawjson.Value) {
	n := 0
	for k, m := range v.Members() {
		if n++; m.IsString() && (k == "output" || k == "result" || k == "error") {
			key, only = k, m
		}
	}
	if n != 1 {
		return "", nil
	}
	return key, only
}
