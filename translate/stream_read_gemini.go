// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package translate

import (
	"strings"

	"github.com/tidwall/gjson"
)

// geminiReader reads answers of the Gemini API. A stream has no terminal event:
// it is complete if it has said why it ended when it is over, and the last
// usage counts.
type geminiReader struct {
	finished bool
}

func (g *geminiReader) event(f *flow, _ string, root gjson.Result) {
	candidates, feedback := root.Get("candidates"), root.Get("promptFeedback.blockReason").Str
	usage := root.Get("usageMetadata")
	switch {
	case f.failIf("", root):
		return
	case !candidates.Exists() && feedback == "" && !usage.Exists():
		return
	}
	f.count(usage)
	if !f.started {
		f.begin(strings.Clone(root.Get("responseId").Str), strings.Clone(root.Get("modelVersion").Str))
	}
	candidates.ForEach(func(_, candidate gjson.Result) bool {
		if candidate.Get("index").Int() == 0 {
			g.candidate(f, candidate)
		}
		return !f.ended
	})
	if feedback != "" {
		g.finished = true
		f.stopped(stopFilter)
	}
}

func (g *geminiReader) candidate(f *flow, candidate gjson.Result) {
	candidate.Get("content.parts").ForEach(func(_, part gjson.Result) bool {
		g.part(f, part)
		return !f.ended
	})
	if reason := candidate.Get("finishReason").Str; reason != "" {
		g.finished = true
		stop, ok := geminiStops[reason]
		if !ok {
			stop = stopFilter
		}
		f.stopped(stop)
	}
}

// geminiStops are the reasons of the Gemini API. The others are all filters:
// SAFETY, RECITATION, LANGUAGE, BLOCKLIST, PROHIBITED_CONTENT, SPII and so on.
var geminiStops = map[string]stopReason{
	"FINISH_REASON_UNSPECIFIED": stopEnd,
	"STOP":                      stopEnd,
	"MAX_TOKENS":                stopLength,
	"MALFORMED_FUNCTION_CALL":   stopEnd,
	"UNEXPECTED_TOOL_CALL":      stopEnd,
	"OTHER":                     stopEnd,
}

// part reads a part. The signature of a call travels with the call, that of
// thinking or text with the thinking.
func (g *geminiReader) part(f *flow, part gjson.Result) {
	signature := part.Get("thoughtSignature").Str
	if call := part.Get("functionCall"); call.IsObject() {
		name := call.Get("name").Str
		if name == "" {
			return
		}
		b := f.call(0, strings.Clone(call.Get("id").Str), strings.Clone(name), strings.Clone(signature), true)
		if b == nil {
			return
		}
		if args := call.Get("args"); args.IsObject() {
			f.arguments(b, string(escaped(args.Raw)))
		} else {
			f.arguments(b, "{}")
		}
		f.endCall(b)
		return
	}
	if part.Get("thought").Bool() {
		f.thinking(inside(part.Get("text")))
		f.sign("", strings.Clone(signature), false)
		return
	}
	f.text(inside(part.Get("text")))
}

func (g *geminiReader) whole(f *flow, root gjson.Result) {
	g.event(f, "", root)
	if g.finished {
		f.end()
		return
	}
	f.failWith(root)
}

func (g *geminiReader) done(f *flow) { g.eof(f) }

func (g *geminiReader) eof(f *flow) {
	if g.finished {
		f.end()
	}
}
