// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package gemini

import (
	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// answerReader reads answers of the Gemini API. Of several candidates it reads the first.
type answerReader struct {
	wire.Teller
	parts int64 // number of parts reported as entries
	// stopped tells that a chunk had a finishReason or a blockReason. A stream has no terminal event:
	// more chunks may follow, and the latest usage counts.
	stopped bool
}

// Event implements [wire.AnswerReader].
func (r *answerReader) Event(root gjson.Result, _ string) {
	candidates, blocked := root.Get("candidates"), root.Get("promptFeedback.blockReason").Str
	usage := root.Get("usageMetadata")
	switch {
	case r.fail(root):
		return
	case !candidates.Exists() && blocked == "" && !usage.Exists():
		return
	}
	r.count(usage)
	r.Begin(root.Get("responseId").Str, root.Get("modelVersion").Str)
	first := true
	candidates.ForEach(func(_, candidate gjson.Result) bool {
		if !first || candidate.Get("index").Int() != 0 { // the client asked for several candidates
			r.Opaque()
		}
		if first = false; candidate.Get("index").Int() == 0 {
			r.candidate(candidate)
		}
		return true
	})
	if blocked != "" {
		r.Tell(wire.Event{Kind: wire.EventBlocked, Name: blocked})
		r.complete()
	}
}

// Whole implements [wire.AnswerReader].
func (r *answerReader) Whole(root gjson.Result) {
	r.Event(root, "")
	if r.stopped {
		r.End()
		return
	}
	r.Tell(wire.Event{Kind: wire.EventNoAnswer, Data: root.Raw})
}

// Done implements [wire.AnswerReader].
func (r *answerReader) Done() { r.EOF() }

// EOF implements [wire.AnswerReader].
func (r *answerReader) EOF() {
	if r.stopped {
		r.End()
	}
}

// fail reads an error. Its status serves as the type.
func (r *answerReader) fail(root gjson.Result) bool {
	if !wire.IsError(root, "") {
		return false
	}
	r.Tell(wire.Event{Kind: wire.EventError, Data: root.Raw, Name: root.Get("error.status").Str})
	return true
}

func (r *answerReader) complete() {
	r.stopped = true
	r.Tell(wire.Event{Kind: wire.EventComplete})
}

func (r *answerReader) candidate(candidate gjson.Result) {
	candidate.Get("content.parts").ForEach(func(_, part gjson.Result) bool {
		r.part(part)
		return true
	})
	if reason := candidate.Get("finishReason").Str; reason != "" {
		r.Stop(reason, "")
		r.complete()
	}
}

// part reads a part. Texts come in pieces, all other parts whole.
func (r *answerReader) part(part gjson.Result) {
	var text, call, image, file, signature gjson.Result
	thought := false
	part.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "text":
			text = value
		case "thought":
			thought = value.Bool()
		case "functionCall":
			call = value
		case "inlineData":
			image = value
		case "fileData":
			file = value
		case "thoughtSignature":
			signature = value
		}
		return true
	})
	if !isPlain(part) {
		r.Open(r.parts, part)
		r.parts++
		defer r.Close(part.Raw)
	}
	// A signature belongs to the call or the thinking in its part, or to the text before it.
	switch {
	case call.IsObject():
		r.call(call, signature.Str)
	case thought: // images in thoughts are drafts
		r.Thinking(rawjson.Inner(text))
		r.Sign(wire.SignsBlock, "", signature.Str)
	default:
		r.Text(rawjson.Inner(text))
		r.Image(image.Get("mimeType").Str, image.Get("data").Str)
		r.ImageURL(file.Get("fileUri").Str)
		r.Sign(wire.SignsText, "", signature.Str)
	}
}

// isPlain reports whether a part is only a text. Such a part may continue the part before.
func isPlain(part gjson.Result) (plain bool) {
	plain = true
	part.ForEach(func(key, value gjson.Result) bool {
		plain = key.Str == "thought" || key.Str == "text" && value.Type == gjson.String
		return plain
	})
	return plain
}

// call reads a whole call, or the start of a call with streamed arguments.
func (r *answerReader) call(call gjson.Result, signature string) {
	name := call.Get("name").Str
	if name == "" || call.Get("partialArgs").Exists() || call.Get("willContinue").Bool() {
		r.Opaque()
	}
	if name == "" { // a piece of streamed arguments
		return
	}
	arguments := "{}"
	if args := call.Get("args"); args.IsObject() {
		arguments = rawjson.InnerJSON(args)
	}
	n := r.Call(r.Index, wire.Event{ID: call.Get("id").Str, Name: name, Data: signature})
	r.Arguments(n, arguments)
	r.EndCall(n, "")
}

func (r *answerReader) count(u gjson.Result) {
	if !u.IsObject() {
		return
	}
	c := &r.Counts
	usage.Read(c, u)
	c.Service = (wire.ServiceTier(u.Get("serviceTier").Str) | wire.ServiceTier(u.Get("trafficType").Str)).Or(c.Service)
	r.Count()
}

// usage describes the members of a usageMetadata.
var usage = wire.UsageTable{
	{Name: "promptTokenCount", Count: wire.CountPrompt},
	{Name: "candidatesTokenCount", Count: wire.CountAnswer},
	{Name: "totalTokenCount", Count: wire.CountSum},
	{Name: "cachedContentTokenCount", Count: wire.CountRead, Sparse: true},
	{Name: "thoughtsTokenCount", Count: wire.CountThoughts, Sparse: true},
	// Gemini does not report cache writes. Package translate adds them for upstreams that do.
	{Name: "cacheWriteTokenCount", Count: wire.CountWrite, Sparse: true},
	{Name: "cacheWrite1hTokenCount", Count: wire.CountLongWrite, Sparse: true},
	{Name: "toolUsePromptTokenCount", Count: wire.CountTools, Alias: true},
}
