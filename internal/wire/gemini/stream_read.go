// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package gemini

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// streamReader reads answers of the Gemini API. A stream has no terminal event:
// it is complete if it has said why it ended when it is over, and the last
// usage counts.
type streamReader struct {
	finished bool
}

func (g *streamReader) Event(f *translate.Flow, _ string, root gjson.Result) {
	candidates, feedback := root.Get("candidates"), root.Get("promptFeedback.blockReason").Str
	usage := root.Get("usageMetadata")
	switch {
	case f.FailIf("", root):
		return
	case !candidates.Exists() && feedback == "" && !usage.Exists():
		return
	}
	f.Count(usage)
	if !f.Answer.Started {
		f.Begin(strings.Clone(root.Get("responseId").Str), strings.Clone(root.Get("modelVersion").Str))
	}
	candidates.ForEach(func(_, candidate gjson.Result) bool {
		if candidate.Get("index").Int() == 0 {
			g.candidate(f, candidate)
		}
		return !f.Ended
	})
	if feedback != "" {
		g.finished = true
		f.Stopped(translate.StopFilter)
	}
}

func (g *streamReader) candidate(f *translate.Flow, candidate gjson.Result) {
	candidate.Get("content.parts").ForEach(func(_, part gjson.Result) bool {
		g.part(f, part)
		return !f.Ended
	})
	if reason := candidate.Get("finishReason").Str; reason != "" {
		g.finished = true
		f.StoppedBy(reason)
	}
}

// part reads a part. The signature of a call travels with the call, that of thinking with
// the thinking, and that of a text behind it.
func (g *streamReader) part(f *translate.Flow, part gjson.Result) {
	signature := part.Get("thoughtSignature").Str
	if call := part.Get("functionCall"); call.IsObject() {
		name := call.Get("name").Str
		if name == "" {
			return
		}
		b := f.Call(0, strings.Clone(call.Get("id").Str), strings.Clone(name), strings.Clone(signature), true)
		if b == nil {
			return
		}
		if args := call.Get("args"); args.IsObject() {
			f.Arguments(b, string(rawjson.Escaped(args.Raw)))
		} else {
			f.Arguments(b, "{}")
		}
		f.EndCall(b)
		return
	}
	if part.Get("thought").Bool() {
		f.Thinking(rawjson.Inner(part.Get("text")))
		f.Sign("", strings.Clone(signature), false)
		return
	}
	f.Text(rawjson.Inner(part.Get("text")))
	if signature != "" {
		f.SignText(strings.Clone(signature))
	}
}

func (g *streamReader) Whole(f *translate.Flow, root gjson.Result) {
	g.Event(f, "", root)
	if g.finished {
		f.End()
		return
	}
	f.FailWith(root)
}

func (g *streamReader) Done(f *translate.Flow) { g.EOF(f) }

func (g *streamReader) EOF(f *translate.Flow) {
	if g.finished {
		f.End()
	}
}
