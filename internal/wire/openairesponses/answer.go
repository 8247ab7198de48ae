// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openairesponses

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/openai"
)

// answer reads answers of the Responses API.
type answer struct{ *wire.Answer }

// event reads one event of a Responses stream and reports whether it is
// the last. What an item holds comes as deltas, and whole at the item's end;
// where servers leave the deltas out, the end counts, and where they leave that
// out too, the last event.
func (a answer) event(root gjson.Result, name string) bool {
	kind := root.Get("type").Str
	if kind == "" {
		kind = name
	}
	switch kind {
	case "response.output_text.delta", "response.refusal.delta":
		a.tell(root.Get("output_index").Int())
		a.Write(&a.Text, root.Get("delta").Str)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		a.tell(root.Get("output_index").Int())
		a.Write(&a.Thinking, root.Get("delta").Str)
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		if c := a.Call(root.Get("output_index").Int()); c != nil {
			a.Write(&c.Arguments, root.Get("delta").Str)
		}
	case "response.output_item.added":
		a.item(root.Get("item"), root.Get("output_index").Int(), false)
	case "response.output_item.done":
		a.item(root.Get("item"), root.Get("output_index").Int(), true)
	case "response.created", "response.in_progress", "response.queued":
		r := root.Get("response")
		a.Identify(r.Get("id").Str, r.Get("model").Str)
	case "response.completed", "response.incomplete":
		a.end(root.Get("response"))
		return true
	case "response.failed":
		a.end(root.Get("response"))
		if !a.Turn.Failed() {
			a.Turn.ErrorType = "error"
		}
	case "error":
		a.error(root)
	default:
		if !strings.HasPrefix(kind, "response.") {
			a.Fail(root, name)
		}
	}
	return false
}

// end reads a response object: the JSON answer, or what the last event
// of a stream holds.
func (a answer) end(r gjson.Result) {
	a.Identify(r.Get("id").Str, r.Get("model").Str)
	a.Turn.Usage = readUsage(a.Turn.Usage, r.Get("usage"))
	a.Turn.Service = wire.ServiceTier(r.Get("service_tier").Str)
	if index := int64(0); len(a.Told)+len(a.Calls) == 0 {
		r.Get("output").ForEach(func(_, item gjson.Result) bool {
			a.item(item, index, true)
			index++
			return !a.Broken
		})
	}
	a.Turn.StopReason = a.Keep(r.Get("status").Str)
	if reason := r.Get("incomplete_details.reason").Str; reason != "" {
		a.Turn.StopReason = a.Keep(reason)
	}
	if e := r.Get("error"); e.IsObject() {
		a.error(e)
	}
}

// read reads a JSON answer.
func (a answer) read(root gjson.Result) {
	if !root.Get("output").IsArray() && !root.Get("status").Exists() {
		a.Fail(root, "")
		return
	}
	a.end(root)
}

// error reads an error: flat, or in a member of that name.
func (a answer) error(e gjson.Result) {
	if inner := e.Get("error"); inner.IsObject() {
		e = inner
	}
	kind := e.Get("code").String()
	if kind == "" {
		kind = e.Get("type").String()
	}
	if kind == "" {
		kind = "error"
	}
	a.Turn.ErrorType, a.Turn.ErrorMessage = a.Keep(kind), a.Keep(e.Get("message").String())
}

// tell notes that what an item says is known.
func (a answer) tell(index int64) {
	if a.Told == nil {
		a.Told = make(map[int64]struct{})
	}
	if _, known := a.Told[index]; known {
		return
	}
	if len(a.Told) == wire.MaxCalls {
		a.Broken = true
		return
	}
	a.Told[index] = struct{}{}
}

// item reads an item of the output, as it begins or whole. Tools that
// the provider runs itself have no call_id.
func (a answer) item(item gjson.Result, index int64, whole bool) {
	kind := item.Get("type").Str
	if _, told := a.Told[index]; whole && !told {
		switch kind {
		case "message":
			a.tell(index)
			a.texts(&a.Text, item.Get("content"))
		case "reasoning":
			a.tell(index)
			a.texts(&a.Thinking, item.Get("summary"))
			a.texts(&a.Thinking, item.Get("content"))
		}
	}
	if kind == "reasoning" {
		a.Begun = true
	}
	id := item.Get("call_id").Str
	if id == "" || !strings.HasSuffix(kind, "_call") {
		return
	}
	c := a.Call(index)
	if c == nil || c.ID != id {
		name := item.Get("name").Str
		if name == "" {
			name = strings.TrimSuffix(kind, "_call")
		}
		if c = a.Open(index, id, name); c == nil {
			return
		}
		c.Free = kind == "custom_tool_call"
	}
	if !whole || c.Arguments.Len() > 0 || c.Initial != "" {
		return
	}
	for _, member := range [...]string{"arguments", "input", "action", "operation"} {
		if v := item.Get(member); v.Exists() {
			c.Initial = a.Keep(wire.ArgumentsText(v))
			return
		}
	}
}

// texts writes the texts of a list of parts.
func (a answer) texts(to *strings.Builder, parts gjson.Result) {
	parts.ForEach(func(_, part gjson.Result) bool {
		text := part.Get("text")
		if !text.Exists() {
			text = part.Get("refusal")
		}
		a.Write(to, text.Str)
		return !a.Broken
	})
}

// readUsage takes in a usage object. It counts inclusively: input_tokens
// holds what was read from the cache and what was written to it.
func readUsage(known wire.Usage, u gjson.Result) wire.Usage {
	if !u.IsObject() {
		return known
	}
	details := u.Get("input_tokens_details")
	prompt, output := wire.Count(u.Get("input_tokens")), wire.Count(u.Get("output_tokens"))
	if prompt+output == 0 {
		return known
	}
	read := min(wire.Count(details.Get("cached_tokens")), prompt)
	write := min(wire.Count(details.Get("cache_write_tokens")), prompt-read)
	hour := min(openai.LongWrites(details), write)
	return wire.Usage{
		Uncached: prompt - read - write,
		Write5m:  write - hour,
		Write1h:  hour,
		Read:     read,
		Output:   output,
		Reported: true,
	}
}
