// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openaichat

import (
	"cmp"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// answerReader reads answers of chat completions, in the variants of many servers. Of several choices
// it reads the first.
type answerReader struct {
	wire.Teller
	chosen, stopped bool // a choice and a finish_reason were read
	// counted tells that a usage was read. It takes precedence over timings.
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
	// A stream with a finish_reason is complete: many servers omit [DONE].
	if r.stopped {
		r.End()
	}
}

var noChoice = wire.Event{
	Kind: wire.EventNoAnswer,
	Data: `{"error":{"message":"the upstream's answer has no choices"}}`,
}

// read reads an answer or a chunk. from names the member of each choice with the content.
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
			// A stream has its usage in a chunk without choices, in every chunk, or nowhere.
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
		if !first { // the client asked for several choices
			r.Opaque()
			return false
		}
		if first = false; id == "" { // the first chunk of some servers is empty
			r.Begin(id, model)
		}
		r.choice(choice, from)
		return true
	})
	return true
}

func (r *answerReader) choice(choice gjson.Result, from string) {
	var index int64
	var delta, message, finish, fault gjson.Result
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
		case "message":
			message = value
		}
		return true
	})
	if index != 0 {
		r.Opaque()
		return
	}
	// Some gateways stream a whole message in one chunk.
	whole := from == "message"
	if !delta.Exists() && !r.chosen && message.IsObject() {
		delta, whole = message, true
	}
	r.chosen = r.chosen || delta.IsObject()
	r.delta(delta, whole)
	r.stopped = r.stopped || finish.Str != ""
	if fault.IsObject() { // OpenRouter, when its provider fails in midstream
		r.Fail(choice)
	}
	r.Stop(finish.Str, "")
}

// delta reads a message, or a fragment of a message.
func (r *answerReader) delta(delta gjson.Result, whole bool) {
	name := "" // of the first member with reasoning
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
	// The first name is DeepSeek's. The alias is that of mlx_lm.server, Ollama and OpenRouter. Some
	// servers send the same text under both names.
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
			r.ImageURL(part.Get("image_url.url").Str)
			part.Get("thinking").ForEach(func(_, thought gjson.Result) bool { // Mistral
				if s := rawjson.Inner(thought.Get("text")); s != "" {
					r.Tell(wire.Event{Kind: wire.EventThinking, Text: s})
				}
				return true
			})
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

// sealed reads encrypted reasoning in the form of OpenRouter, which package translate writes too.
func (r *answerReader) sealed(details gjson.Result) {
	details.ForEach(func(_, d gjson.Result) bool {
		if d.Get("type").Str == "reasoning.encrypted" {
			r.Sign(wire.SignsBlock, d.Get("id").Str, d.Get("data").Str)
		}
		return true
	})
}

// call reads a whole call or a fragment of a call.
func (r *answerReader) call(c call, position int64, whole bool) {
	// Fragments of one call share an index. Servers that stream whole calls may omit the index or
	// give all calls the same one.
	at := -1
	switch {
	case whole:
	case c.index.Exists():
		at = r.Find(c.index.Int())
	default:
		at = r.Last()
	}
	// The first fragment of a call has an id or a name.
	if at < 0 && c.id == "" && c.name == "" {
		at = r.Last()
		if at < 0 {
			r.fragment(at, c)
			return
		}
	}
	// Servers that repeat a call's name without arguments begin the next call of the tool if arguments follow.
	if at >= 0 && c.name == "" && c.arguments != "" && r.Repeated(at) {
		c.name = r.CallName(at)
	}
	switch {
	case at >= 0 && r.continues(at, c):
		r.Identify(at, c.id, c.name)
	default:
		if c.index.Exists() {
			position = c.index.Int()
		}
		if at = r.Call(position, wire.Event{
			ID: c.id, Name: c.name, Data: c.signature, Free: c.free, Apart: c.apart,
			Loose: true,
		}); at < 0 {
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

// continues reports whether a fragment belongs to the call with the given number.
func (r *answerReader) continues(at int, c call) bool {
	id, name, complete := r.CallID(at), r.CallName(at), r.Complete(at)
	same := id == "" || c.id == "" || id == c.id
	switch {
	case c.name == "":
		// Some servers send another id with each fragment.
		return same || !complete
	case !complete, name == "":
		return same
	}
	// A name after a complete call begins the next call, except for one that servers repeat at the end of the call.
	return c.arguments == "" && name == c.name && (c.id == "" || id == c.id)
}

// call has the members of a tool call or of a fragment.
type call struct {
	raw                 string
	index               gjson.Result
	id, name, signature string
	arguments           string // escaped
	free                bool   // the arguments are free text
	apart               bool   // the call stands outside tool_calls
	extra               string // other members, separated by commas
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

// timings reads the usage from the timings of llama-server.
func (r *answerReader) timings(t gjson.Result) {
	// The last chunk has timings even if the client did not ask for a usage. Every chunk has them
	// if the client asked for timings.
	if !r.counted && t.IsObject() {
		r.Counts.Usage = timings(t)
		r.Count()
	}
}

// progress reads the prompt progress of llama-server: the tokens of the prompt and the cached ones.
func (r *answerReader) progress(p gjson.Result) {
	total, cached := p.Get("total").Int(), p.Get("cache").Int()
	if r.counted || total <= 0 || total > wire.MaxCount || cached < 0 || cached > total {
		return
	}
	known := wire.Counts{Usage: wire.Usage{Uncached: total - cached, Read: cached, Reported: true}}
	r.Tell(wire.Event{Kind: wire.EventProgress, Counts: &known})
}
