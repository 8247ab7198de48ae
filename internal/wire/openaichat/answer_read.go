// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openaichat

import (
	"cmp"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// answerReader reads answers of chat completions, in the dialects that servers speak. Of several
// choices it reads the first. A stream that has said why it ended is complete when it is
// over: many servers leave out [DONE].
type answerReader struct {
	wire.Teller
	chosen, stopped bool
	// counted tells that there was a usage: timings count less.
	counted bool
}

// Event implements [wire.AnswerReader].
func (r *answerReader) Event(root gjson.Result, name string) {
	if !r.read(root, "delta") {
		r.FailIf(root, name)
	}
}

// Whole implements [wire.AnswerReader].
func (r *answerReader) Whole(root gjson.Result) {
	switch {
	case !r.read(root, "message"):
		r.NoAnswer(root)
	case !r.chosen:
		r.Tell(noChoice)
	default:
		r.End()
	}
}

// Done implements [wire.AnswerReader].
func (r *answerReader) Done() {
	if !r.chosen && !r.stopped {
		r.Tell(noChoice)
		return
	}
	r.End()
}

// EOF implements [wire.AnswerReader].
func (r *answerReader) EOF() {
	if r.stopped {
		r.End()
	}
}

var noChoice = wire.Event{Kind: wire.EventNoAnswer, Data: `{"error":{"message":"the upstream's answer has no choices"}}`}

// read reads an answer or a chunk of one, whose choices hold what is said under a name, and
// reports whether it is one. The usage of a stream comes in a chunk of its own without
// choices, or in every chunk, or not at all.
func (r *answerReader) read(root gjson.Result, from string) bool {
	var id, model string
	var choices, fault gjson.Result
	root.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "id":
			id = value.Str
		case "model":
			model = value.Str
		case "choices":
			choices = value
		case "service_tier":
			r.Served(wire.ServiceTier(value.Str))
		case "usage":
			r.usage(value)
		case "timings":
			r.timings(value)
		case "prompt_progress":
			r.progress(value)
		case "error":
			fault = value
		}
		return true
	})
	if fault.IsObject() || fault.Str != "" || !choices.Exists() {
		return false
	}
	if id != "" {
		r.Begin(id, model)
	}
	first := true
	choices.ForEach(func(_, choice gjson.Result) bool {
		if !first { // several were asked for
			r.Opaque()
			return false
		}
		if first = false; id == "" { // the first chunk of some servers holds nothing yet
			r.Begin(id, model)
		}
		r.choice(choice, from)
		return true
	})
	return true
}

func (r *answerReader) choice(choice gjson.Result, from string) {
	var index int64
	var delta, finish, fault gjson.Result
	choice.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "index":
			index = value.Int()
		case "finish_reason":
			finish = value
		case "error":
			fault = value
		case from:
			delta = value
		}
		return true
	})
	if index != 0 {
		r.Opaque()
		return
	}
	r.chosen = r.chosen || delta.IsObject()
	r.delta(delta, from == "message")
	r.stopped = r.stopped || finish.Str != ""
	if fault.IsObject() { // OpenRouter, where its provider broke off
		r.Fail(choice)
	}
	r.Stop(finish.Str, "")
}

// delta reads a message, or the fragment of one.
func (r *answerReader) delta(delta gjson.Result, whole bool) {
	name := "" // of the member that reasoning stands in first
	var content, refusal, reasoning, alias, details, images, calls, legacy gjson.Result
	delta.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "content":
			content = value
		case "refusal":
			refusal = value
		case "reasoning_content":
			if reasoning = value; rawjson.Inner(value) != "" {
				name = cmp.Or(name, "reasoning_content")
			}
		case "reasoning":
			if alias = value; rawjson.Inner(value) != "" {
				name = cmp.Or(name, "reasoning")
			}
		case "reasoning_details":
			details = value
		case "images": // OpenRouter, LiteLLM
			images = value
		case "tool_calls":
			calls = value
		case "function_call":
			legacy = value
		}
		return true
	})
	// DeepSeek's name and that of mlx_lm.server, Ollama and OpenRouter; some servers send
	// the same text under both.
	if rawjson.Inner(reasoning) == "" {
		reasoning = alias
	}
	if s := rawjson.Inner(reasoning); s != "" {
		r.Tell(wire.Event{Kind: wire.EventThinking, Name: name, Text: s})
	}
	r.sealed(details)
	if content.IsArray() {
		r.Opaque()
		content.ForEach(func(_, part gjson.Result) bool {
			r.Text(rawjson.Inner(part.Get("text")))
			return true
		})
	} else {
		r.Text(rawjson.Inner(content))
	}
	if s := rawjson.Inner(refusal); s != "" {
		r.Tell(wire.Event{Kind: wire.EventRefusal, Text: s})
	}
	images.ForEach(func(_, image gjson.Result) bool {
		r.ImageURL(image.Get("image_url.url").Str)
		return true
	})
	switch {
	case calls.IsArray():
		position := int64(-1)
		calls.ForEach(func(_, item gjson.Result) bool {
			position++
			r.call(readCall(item), position, whole)
			return true
		})
	case legacy.IsObject(): // llama-cpp-python and other older servers
		c := call{index: gjson.Result{Type: gjson.Number}, apart: true}
		c.function(legacy)
		r.call(c, 0, whole)
	}
}

// sealed reads the encrypted reasoning that OpenRouter and package translate put beside a
// message.
func (r *answerReader) sealed(details gjson.Result) {
	details.ForEach(func(_, d gjson.Result) bool {
		if d.Get("type").Str == "reasoning.encrypted" {
			r.Sign(wire.SignsBlock, d.Get("id").Str, d.Get("data").Str)
		}
		return true
	})
}

// call reads a call, whole or as a fragment of one. Fragments belong together by their
// index. Servers that stream calls whole may leave the index out or give all calls the same.
// A fragment without an id and a name is never a call's first.
func (r *answerReader) call(c call, position int64, whole bool) {
	at := -1
	switch {
	case whole:
	case c.index.Exists():
		at = r.Find(c.index.Int())
	default:
		at = r.Last()
	}
	if at < 0 && c.id == "" && c.name == "" {
		at = r.Last()
		if at < 0 {
			r.fragment(at, c)
			return
		}
	}
	switch {
	case at >= 0 && r.continues(at, c):
		r.Identify(at, c.id, c.name)
	default:
		if c.index.Exists() {
			position = c.index.Int()
		}
		if at = r.Call(position, wire.Event{ID: c.id, Name: c.name, Data: c.signature, Free: c.free, Apart: c.apart, Loose: true}); at < 0 {
			r.fragment(at, c)
			return
		}
	}
	r.fragment(at, c)
	r.Arguments(at, c.arguments)
}

func (r *answerReader) fragment(at int, c call) {
	if !c.apart {
		r.Tell(wire.Event{Kind: wire.EventPiece, Call: at, Data: c.raw, Text: c.extra})
	}
}

// continues reports whether a fragment goes on with a call: it has no other id, and does not
// bring the name and the arguments of another call, when those of this one are complete.
func (r *answerReader) continues(at int, c call) bool {
	if id := r.CallID(at); id != "" && c.id != "" {
		return id == c.id
	}
	return c.name == "" || c.arguments == "" || !r.Complete(at)
}

// call are the members of a tool call, or of a fragment of one.
type call struct {
	raw                 string
	index               gjson.Result
	id, name, signature string
	arguments           string // escaped
	free                bool   // they are free text
	apart               bool   // it is no fragment of tool_calls
	extra               string // other members, with commas between
}

func readCall(item gjson.Result) (c call) {
	c.raw = item.Raw
	item.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "index":
			c.index = value
		case "id":
			c.id = value.Str
		case "function":
			c.function(value)
		case "custom":
			c.free = value.IsObject()
			c.function(value)
		case "type":
		case "extra_content":
			c.signature = value.Get("google.thought_signature").Str
			fallthrough
		default:
			if c.extra != "" {
				c.extra += ","
			}
			c.extra += key.Raw + ":" + value.Raw
		}
		return true
	})
	return c
}

func (c *call) function(f gjson.Result) {
	f.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "name":
			c.name = value.Str
		case "arguments", "input":
			c.arguments = rawjson.InnerJSON(value)
		}
		return true
	})
}

func (r *answerReader) usage(u gjson.Result) {
	if usage.Read(&r.Counts, u) {
		r.counted = true
		r.Count()
	}
}

// timings takes the usage from the timings of llama-server, which come with the last chunk
// of a stream even where the client did not ask for its usage, and with every chunk where it
// asked for timings.
func (r *answerReader) timings(t gjson.Result) {
	if !r.counted && t.IsObject() {
		r.Counts.Usage = timings(t)
		r.Count()
	}
}

// progress takes what llama-server says of the prompt while it reads it: all of its tokens,
// and those that were in the cache.
func (r *answerReader) progress(p gjson.Result) {
	total, cached := p.Get("total").Int(), p.Get("cache").Int()
	if r.counted || total <= 0 || total > wire.MaxCount || cached < 0 || cached > total {
		return
	}
	known := wire.Counts{Usage: wire.Usage{Uncached: total - cached, Read: cached, Reported: true}}
	r.Tell(wire.Event{Kind: wire.EventProgress, Counts: &known})
}
