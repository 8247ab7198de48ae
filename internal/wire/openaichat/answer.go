// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openaichat

import (
	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/openai"
)

// answer reads answers of the chat completions API.
type answer struct{ *wire.Answer }

// read reads a chunk of a chat completions stream, where from is "delta",
// or a JSON answer, where it is "message". The usage of a stream comes in a
// chunk of its own without choices, or in every chunk, or not at all.
func (a answer) read(root gjson.Result, from, event string) {
	chunk, failed := false, false
	root.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "id":
			a.Identify(value.Str, "")
		case "model":
			a.Identify("", value.Str)
		case "service_tier":
			a.Turn.Service = wire.ServiceTier(value.Str)
		case "usage":
			a.count(value)
		case "timings":
			a.timings(value)
		case "choices":
			chunk = true
			value.ForEach(func(_, choice gjson.Result) bool {
				a.choice(choice, from)
				return false
			})
		case "error":
			failed = true
		}
		return !a.Broken
	})
	if failed || !chunk {
		a.Fail(root, event)
	}
}

// choice reads a choice. The turn is the first one where the client asked
// for several.
func (a answer) choice(choice gjson.Result, from string) {
	delta, finish, first := members(choice, from)
	if !first {
		return
	}
	a.delta(delta, from == "message")
	if finish.Str != "" {
		a.Turn.StopReason = a.Keep(finish.Str)
	}
}

// members returns what a choice holds under a name, and why it has ended. It reports whether the
// choice is the first one.
func members(choice gjson.Result, name string) (delta, finish gjson.Result, first bool) {
	var index int64
	choice.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "index":
			index = value.Int()
		case "finish_reason":
			finish = value
		case name:
			delta = value
		}
		return true
	})
	return delta, finish, index == 0
}

// delta reads a message, or the fragment of one.
func (a answer) delta(delta gjson.Result, whole bool) {
	var reasoning, alias string
	delta.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "content":
			a.content(value)
		case "refusal":
			a.Write(&a.Text, value.Str)
		case "reasoning_content":
			reasoning = value.Str
		case "reasoning":
			alias = value.Str
		case "tool_calls":
			a.toolCalls(value, whole)
		}
		return !a.Broken
	})
	// DeepSeek's name and that of mlx_lm.server, Ollama and OpenRouter; some
	// servers send the same text under both.
	if reasoning == "" {
		reasoning = alias
	}
	a.Write(&a.Thinking, reasoning)
}

// content reads a content: a string, or an array of parts.
func (a answer) content(content gjson.Result) {
	if !content.IsArray() {
		a.Write(&a.Text, content.Str)
		return
	}
	content.ForEach(func(_, part gjson.Result) bool {
		a.Write(&a.Text, part.Get("text").Str)
		return !a.Broken
	})
}

// toolCalls reads tool calls, whole or as fragments that belong together by
// their index. Servers that stream calls whole may leave the index out or give
// all calls the same: another id is another call.
func (a answer) toolCalls(list gjson.Result, whole bool) {
	if !list.IsArray() {
		return
	}
	position := int64(-1)
	list.ForEach(func(_, item gjson.Result) bool {
		position++
		if !item.IsObject() {
			return true
		}
		m := readCall(item)
		id, index := m.id, m.index
		var c *wire.AnswerCall
		switch {
		case whole:
		case index.Exists():
			c = a.Call(index.Int())
		case len(a.Calls) > 0:
			c = a.Calls[len(a.Calls)-1]
		}
		if c == nil || id != "" && c.ID != "" && id != c.ID {
			at := position
			if index.Exists() {
				at = index.Int()
			}
			if c = a.Open(at, id, m.name); c == nil {
				return false
			}
			c.Free = m.free
		}
		if c.ID == "" {
			c.ID = a.Keep(id)
		}
		if c.Name == "" {
			c.Name = a.Keep(m.name)
		}
		a.Write(&c.Arguments, m.arguments)
		return !a.Broken
	})
}

// call are the members of a tool call, or of a fragment of one.
type call struct {
	index               gjson.Result
	id, name, arguments string
	free                bool // the arguments are free text
}

func readCall(item gjson.Result) (c call) {
	item.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "index":
			c.index = value
		case "id":
			c.id = value.Str
		case "function", "custom":
			c.free = c.free || key.Str == "custom" && value.IsObject()
			value.ForEach(func(key, value gjson.Result) bool {
				switch key.Str {
				case "name":
					c.name = value.Str
				case "arguments", "input":
					c.arguments = wire.ArgumentsText(value)
				}
				return true
			})
		}
		return true
	})
	return c
}

// count takes in a usage object, and notes that there was one.
func (a answer) count(u gjson.Result) {
	if now := readUsage(wire.Usage{}, u); now.Reported {
		a.Turn.Usage, a.Counted = now, true
	}
}

// readUsage takes in a usage object, which replaces one that came before. The
// format counts inclusively: prompt_tokens holds what was read from the cache
// and what was written to it. The cached part has a name per vendor:
// prompt_tokens_details.cached_tokens (OpenAI, mlx_lm.server, llama-server),
// cached_tokens (oMLX), prompt_cache_hit_tokens (DeepSeek),
// cache_read_input_tokens (gateways in front of Anthropic).
func readUsage(known wire.Usage, u gjson.Result) wire.Usage {
	if !u.IsObject() {
		return known
	}
	var c counts
	u.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "prompt_tokens":
			c.prompt = wire.Count(value)
		case "completion_tokens":
			c.output = wire.Count(value)
		case "total_tokens":
			c.total = wire.Count(value)
		case "cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens":
			c.read = max(c.read, wire.Count(value))
		case "cache_creation_input_tokens":
			c.write = max(c.write, wire.Count(value))
		case "prompt_tokens_details":
			c.details(value)
		}
		return true
	})
	if c.prompt+c.output == 0 {
		return known
	}
	read := min(c.read, c.prompt)
	write := min(c.write, c.prompt-read)
	hour := min(c.hour, write)
	return wire.Usage{
		Uncached: c.prompt - read - write,
		Write5m:  write - hour,
		Write1h:  hour,
		Read:     read,
		// Some vendors leave reasoning out of completion_tokens, none leaves
		// it out of the total.
		Output:   max(c.output, c.total-c.prompt),
		Reported: true,
	}
}

// counts are the members of a usage object, by what they mean.
type counts struct{ prompt, output, total, read, write, hour int64 }

// details reads what there is to say of the prompt.
func (c *counts) details(details gjson.Result) {
	details.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "cached_tokens":
			c.read = max(c.read, wire.Count(value))
		case "cache_write_tokens", "cache_creation_tokens":
			c.write = max(c.write, wire.Count(value))
		case "cache_write_tokens_details", "cache_write_1h_tokens":
			c.hour = openai.LongWrites(details)
		}
		return true
	})
}

// timings takes the usage from the timings of llama-server, which come with
// the last chunk of a stream even where the client did not ask for its usage,
// and with every chunk where it asked for timings.
func (a answer) timings(t gjson.Result) {
	if a.Counted || !t.IsObject() {
		return
	}
	a.Turn.Usage = wire.Timings(t)
}
