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

func (g *geminiReader) Event(f *Flow, _ string, root gjson.Result) {
	candidates, feedback := root.Get("candidates"), root.Get("promptFeedback.blockReason").Str
	usage := root.Get("usageMetadata")
	switch {
	case f.FailIf("", root):
		return
	case !candidates.Exists() && feedback == "" && !usage.Exists():
		return
	}
	f.Count(usage)
	if !f.Started {
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
		f.Stopped(StopFilter)
	}
}

func (g *geminiReader) candidate(f *Flow, candidate gjson.Result) {
	candidate.Get("content.parts").ForEach(func(_, part gjson.Result) bool {
		g.part(f, part)
		return !f.Ended
	})
	if reason := candidate.Get("finishReason").Str; reason != "" {
		g.finished = true
		stop, ok := geminiStops[reason]
		if !ok {
			stop = StopFilter
		}
		f.Stopped(stop)
	}
}

// geminiStops are the reasons of the Gemini API. The others are all filters:
// SAFETY, RECITATION, LANGUAGE, BLOCKLIST, PROHIBITED_CONTENT, SPII and so on.
var geminiStops = map[string]StopReason{
	"FINISH_REASON_UNSPECIFIED": StopEnd,
	"STOP":                      StopEnd,
	"MAX_TOKENS":                StopLength,
	"MALFORMED_FUNCTION_CALL":   StopEnd,
	"UNEXPECTED_TOOL_CALL":      StopEnd,
	"OTHER":                     StopEnd,
}

// part reads a part. The signature of a call travels with the call, that of
// thinking or text with the thinking.
func (g *geminiReader) part(f *Flow, part gjson.Result) {
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
			f.Arguments(b, string(Escaped(args.Raw)))
		} else {
			f.Arguments(b, "{}")
		}
		f.EndCall(b)
		return
	}
	if part.Get("thought").Bool() {
		f.Thinking(Inside(part.Get("text")))
		f.Sign("", strings.Clone(signature), false)
		return
	}
	f.Text(Inside(part.Get("text")))
}

func (g *geminiReader) Whole(f *Flow, root gjson.Result) {
	g.Event(f, "", root)
	if g.finished {
		f.End()
		return
	}
	f.FailWith(root)
}

func (g *geminiReader) Done(f *Flow) { g.EOF(f) }

func (g *geminiReader) EOF(f *Flow) {
	if g.finished {
		f.End()
	}
}
