// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package gemini

import (
	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// answer reads answers of the Gemini API.
type answer struct{ *wire.Answer }

// read reads a GenerateContentResponse: a JSON answer, or a chunk of a
// stream. A stream of events has no terminal one. The answer is complete once a
// chunk has told why it ended, or why there is none; chunks may follow, and the
// latest usage counts.
func (a answer) read(root gjson.Result) {
	known := false
	root.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "responseId":
			a.Identify(value.Str, "")
		case "modelVersion":
			a.Identify("", value.Str)
		case "usageMetadata":
			known = true
			a.Turn.Usage = readUsage(a.Turn.Usage, value)
			a.Turn.Service = (wire.ServiceTier(value.Get("serviceTier").Str) | wire.ServiceTier(value.Get("trafficType").Str)).Or(a.Turn.Service)
		case "candidates":
			known = true
			value.ForEach(func(_, candidate gjson.Result) bool {
				a.candidate(candidate)
				return !a.Broken
			})
		case "promptFeedback":
			known = true
			if reason := value.Get("blockReason").Str; reason != "" {
				a.Turn.StopReason, a.Ended = a.Keep(reason), true
			}
		}
		return !a.Broken
	})
	if e := root.Get("error"); e.Exists() || !known {
		a.Fail(root, "")
		if status := e.Get("status").Str; status != "" {
			a.Turn.ErrorType = a.Keep(status)
		}
	}
}

// candidate reads a candidate. The turn is the first one where the client
// asked for several.
func (a answer) candidate(candidate gjson.Result) {
	if candidate.Get("index").Int() != 0 {
		return
	}
	candidate.Get("content.parts").ForEach(func(_, part gjson.Result) bool {
		a.part(part)
		return !a.Broken
	})
	if reason := candidate.Get("finishReason").Str; reason != "" {
		a.Turn.StopReason, a.Ended = a.Keep(reason), true
	}
}

// part reads a part of an answer: calls always come whole.
func (a answer) part(part gjson.Result) {
	if call := part.Get("functionCall"); call.IsObject() {
		name := call.Get("name").Str
		if name == "" { // a piece of arguments that are streamed
			return
		}
		c := a.Open(int64(len(a.Calls)), call.Get("id").Str, name)
		if c == nil {
			return
		}
		arguments := call.Get("args").Raw
		if arguments == "" {
			arguments = "{}"
		}
		a.Write(&c.Arguments, arguments)
		return
	}
	text := part.Get("text").Str
	if part.Get("thought").Bool() {
		a.Write(&a.Thinking, text)
		return
	}
	a.Write(&a.Text, text)
}

// readUsage takes in a usageMetadata, which replaces one that came before.
// promptTokenCount holds what was read from the cache; what the provider's own
// tools have put into the prompt comes on top of it. candidatesTokenCount leaves
// the thoughts out.
func readUsage(known wire.Usage, u gjson.Result) wire.Usage {
	prompt := wire.Count(u.Get("promptTokenCount"))
	read := min(wire.Count(u.Get("cachedContentTokenCount")), prompt)
	tools := wire.Count(u.Get("toolUsePromptTokenCount"))
	output := wire.Count(u.Get("candidatesTokenCount")) + wire.Count(u.Get("thoughtsTokenCount"))
	if prompt+output == 0 {
		return known
	}
	// Gemini does not report what it writes to a cache; package translate does,
	// for the upstreams behind it that do.
	write := min(wire.Count(u.Get("cacheWriteTokenCount")), prompt-read)
	hour := min(wire.Count(u.Get("cacheWrite1hTokenCount")), write)
	return wire.Usage{Uncached: prompt - read - write + tools, Write5m: write - hour, Write1h: hour, Read: read, Output: output, Reported: true}
}
