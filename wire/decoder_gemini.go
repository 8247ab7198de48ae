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

package wire

import (
	"bytes"

	"github.com/tidwall/gjson"
)

// geminiAnswer reads a GenerateContentResponse: a JSON answer, or a chunk of a
// stream. A stream of events has no terminal one. The answer is complete once a
// chunk has told why it ended, or why there is none; chunks may follow, and the
// latest usage counts.
func (a *answer) geminiAnswer(root gjson.Result) {
	known := false
	root.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "responseId":
			a.identify(value.Str, "")
		case "modelVersion":
			a.identify("", value.Str)
		case "usageMetadata":
			known = true
			a.geminiUsage(value)
		case "candidates":
			known = true
			value.ForEach(func(_, candidate gjson.Result) bool {
				a.geminiCandidate(candidate)
				return !a.broken
			})
		case "promptFeedback":
			known = true
			if reason := value.Get("blockReason").Str; reason != "" {
				a.turn.StopReason, a.ended = a.keep(reason), true
			}
		}
		return !a.broken
	})
	if e := root.Get("error"); e.Exists() || !known {
		a.fail(root, "")
		if status := e.Get("status").Str; status != "" {
			a.turn.ErrorType = a.keep(status)
		}
	}
}

// geminiCandidate reads a candidate. The turn is the first one where the client
// asked for several.
func (a *answer) geminiCandidate(candidate gjson.Result) {
	if candidate.Get("index").Int() != 0 {
		return
	}
	candidate.Get("content.parts").ForEach(func(_, part gjson.Result) bool {
		a.geminiPart(part)
		return !a.broken
	})
	if reason := candidate.Get("finishReason").Str; reason != "" {
		a.turn.StopReason, a.ended = a.keep(reason), true
	}
}

// geminiPart reads a part of an answer: calls always come whole.
func (a *answer) geminiPart(part gjson.Result) {
	if call := part.Get("functionCall"); call.IsObject() {
		name := call.Get("name").Str
		if name == "" { // a piece of arguments that are streamed
			return
		}
		c := a.open(int64(len(a.calls)), call.Get("id").Str, name)
		if c == nil {
			return
		}
		arguments := call.Get("args").Raw
		if arguments == "" {
			arguments = "{}"
		}
		a.write(&c.arguments, arguments)
		return
	}
	text := part.Get("text").Str
	if part.Get("thought").Bool() {
		a.write(&a.thinking, text)
		return
	}
	a.write(&a.text, text)
}

// geminiUsage takes in a usageMetadata, which replaces one that came before.
// promptTokenCount holds what was read from the cache; what the provider's own
// tools have put into the prompt comes on top of it. candidatesTokenCount leaves
// the thoughts out.
func (a *answer) geminiUsage(u gjson.Result) {
	prompt := answerCount(u.Get("promptTokenCount"))
	read := min(answerCount(u.Get("cachedContentTokenCount")), prompt)
	tools := answerCount(u.Get("toolUsePromptTokenCount"))
	output := answerCount(u.Get("candidatesTokenCount")) + answerCount(u.Get("thoughtsTokenCount"))
	if prompt+output == 0 {
		return
	}
	// Gemini does not report what it writes to a cache; package translate does,
	// for the upstreams behind it that do.
	write := min(answerCount(u.Get("cacheWriteTokenCount")), prompt-read)
	hour := min(answerCount(u.Get("cacheWrite1hTokenCount")), write)
	a.turn.Usage = Usage{Uncached: prompt - read - write + tools, Write5m: write - hour, Write1h: hour, Read: read, Output: output, Reported: true}
}

// array reads the next bytes of a stream in the form of one JSON array, as Gemini
// sends it to clients that do not ask for events (alt=sse).
func (d *Decoder) array(p []byte) {
	for d.form == answerArray {
		if d.doc.raw.Len() == 0 { // between two elements
			p = bytes.TrimLeft(p, " \t\r\n,")
			switch {
			case len(p) == 0:
				return
			case p[0] == ']' && d.answer.ended:
				d.finish()
				return
			case p[0] != '{':
				d.stop()
				return
			}
		}
		rest, ok := d.doc.take(p)
		if !ok {
			d.stop()
			return
		}
		if !d.doc.closed {
			return
		}
		d.element()
		p = rest
	}
}

// element reads an element of an array that has come to its end.
func (d *Decoder) element() {
	text := d.doc.raw.String()
	d.doc = answerDocument{}
	if !Valid(text) {
		d.stop()
		return
	}
	d.answer.geminiAnswer(gjson.Parse(text))
	if d.answer.broken || d.answer.turn.Failed() {
		d.stop()
	}
}
