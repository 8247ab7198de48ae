// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openaichat

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// streamReader reads answers of chat completions, in the dialects that servers
// speak. Choices beyond the first are left out: no other format has them. A stream that
// has said why it ended is complete when it is over: many servers leave out [DONE].
type streamReader struct {
	chosen, finished bool
}

func (c *streamReader) Event(f *translate.Flow, name string, root gjson.Result) {
	if !c.answer(f, root, "delta") {
		f.FailIf(name, root)
	}
}

// Whole reads an answer that is not streamed; it is over when it is read.
func (c *streamReader) Whole(f *translate.Flow, root gjson.Result) {
	if !c.answer(f, root, "message") {
		f.FailWith(root)
		return
	}
	if !c.chosen {
		f.FailWith(gjson.Parse(`{"error":{"message":"the upstream's answer has no choices"}}`))
		return
	}
	f.End()
}

// answer reads an answer or a chunk of one, and reports whether it was one.
func (c *streamReader) answer(f *translate.Flow, root gjson.Result, from string) bool {
	var id, model string
	var choices, usage, timings, progress, fault gjson.Result
	root.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "id":
			id = value.Str
		case "model":
			model = value.Str
		case "choices":
			choices = value
		case "service_tier":
			f.Served(wire.ServiceTier(value.Str))
		case "usage":
			usage = value
		case "timings":
			timings = value
		case "prompt_progress":
			progress = value
		case "error":
			fault = value
		}
		return true
	})
	if fault.IsObject() || fault.Str != "" || !choices.Exists() {
		return false
	}
	f.Count(usage)
	f.CountTimings(timings)
	f.PromptProgress(progress)
	// The first chunk of some servers holds nothing yet, not even an id.
	if !f.Answer.Started && (id != "" || choices.Get("0").Exists()) {
		f.Begin(strings.Clone(id), strings.Clone(model))
	}
	choices.ForEach(func(_, choice gjson.Result) bool {
		c.choice(f, choice, from)
		if choice.Get("error").IsObject() { // OpenRouter, where its provider broke off
			f.FailWith(choice)
		}
		return false
	})
	return true
}

func (c *streamReader) choice(f *translate.Flow, choice gjson.Result, from string) {
	delta, finish, first := members(choice, from)
	if !first {
		return
	}
	c.chosen = c.chosen || delta.IsObject()
	c.delta(f, delta, from == "message")
	if finish.Str == "" {
		return
	}
	c.finished = true
	f.StoppedBy(finish.Str)
}

func (c *streamReader) delta(f *translate.Flow, delta gjson.Result, whole bool) {
	var content, refusal, reasoning, alias, details, calls, legacy gjson.Result
	delta.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "content":
			content = value
		case "refusal":
			refusal = value
		case "reasoning_content":
			reasoning = value
		case "reasoning":
			alias = value
		case "reasoning_details":
			details = value
		case "tool_calls":
			calls = value
		case "function_call":
			legacy = value
		}
		return true
	})
	if rawjson.Inner(reasoning) == "" {
		reasoning = alias
	}
	f.Thinking(rawjson.Inner(reasoning))
	c.sealed(f, details)
	if content.IsArray() {
		content.ForEach(func(_, part gjson.Result) bool {
			f.Text(rawjson.Inner(part.Get("text")))
			return true
		})
	} else {
		f.Text(rawjson.Inner(content))
	}
	if s := rawjson.Inner(refusal); s != "" {
		f.Answer.Refused = true
		f.Text(s)
	}
	switch {
	case calls.IsArray():
		c.calls(f, calls, whole)
	case legacy.IsObject(): // llama-cpp-python and other older servers
		c.calls(f, gjson.Parse(`[{"index":0,"function":`+legacy.Raw+`}]`), whole)
	}
}

// sealed reads the encrypted reasoning that OpenRouter and this package put
// beside a message.
func (c *streamReader) sealed(f *translate.Flow, details gjson.Result) {
	details.ForEach(func(_, d gjson.Result) bool {
		if d.Get("type").Str == "reasoning.encrypted" {
			f.Sign(strings.Clone(d.Get("id").Str), strings.Clone(d.Get("data").Str), false)
		}
		return true
	})
}

// calls reads tool_calls as wire's decoder does. A new call has a new index in
// a stream; some servers give every call the same index, or none, but new ids.
func (c *streamReader) calls(f *translate.Flow, list gjson.Result, whole bool) {
	position := int64(-1)
	list.ForEach(func(_, item gjson.Result) bool {
		position++
		if !item.IsObject() {
			return true
		}
		id, function, index := item.Get("id").Str, item.Get("function"), item.Get("index")
		var b *translate.Block
		switch {
		case whole:
		case index.Exists():
			b = f.Find(index.Int())
		default:
			b = f.Last()
		}
		name, signature := function.Get("name").Str, item.Get("extra_content.google.thought_signature").Str
		if b == nil && id == "" && name == "" { // a piece of the call before, whatever its index, or nothing
			if b = f.Last(); b == nil {
				return true
			}
		}
		if b == nil || id != "" && b.Call.GivenID && id != b.ID {
			at := position
			if index.Exists() {
				at = index.Int()
			}
			if b = f.Call(at, strings.Clone(id), strings.Clone(name), strings.Clone(signature), false); b == nil {
				return false
			}
		}
		f.Name(b, id, name)
		f.Arguments(b, translate.ArgumentsText(function.Get("arguments")))
		return !f.Ended
	})
}

func (c *streamReader) Done(f *translate.Flow) { f.End() }

func (c *streamReader) EOF(f *translate.Flow) {
	if c.finished {
		f.End()
	}
}
