// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openaichat

import (
	"bytes"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// holder holds the entries of tool_calls until the next one begins, or the
// choice has a finish_reason.
type holder struct {
	open   []heldCall
	joined bool // all calls of a choice go into the chunk with its finish_reason
}

// heldCall is a call of one choice: its first entry, and all its arguments.
type heldCall struct {
	choice, index int64
	chunk         []byte // the chunk that it began in
	entry, args   []byte
	end           rawjson.ObjectEnd
}

func (h *holder) Event(o *translate.Buffer, name string, data []byte, root gjson.Result) bool {
	choices := root.Get("choices")
	rest := data // the chunk without its calls
	drop := choices.IsArray() && !root.Get("usage").IsObject()
	var patched []byte
	held := false
	choices.ForEach(func(_, choice gjson.Result) bool {
		delta := choice.Get("delta")
		calls := delta.Get("tool_calls")
		finish := choice.Get("finish_reason").Str != ""
		raw, left := []byte(choice.Raw), []byte("{}")
		if delta.IsObject() {
			left = []byte(delta.Raw)
		}
		if calls.IsArray() {
			held = true
			calls.ForEach(func(_, entry gjson.Result) bool {
				h.entry(o, choice.Get("index").Int(), entry, data)
				return true
			})
			left = translate.ReplaceMembers(left, wire.Member{Name: "tool_calls"})
			drop = drop && !finish && len(bytes.Trim(left, "{} \t\r\n")) == 0
			raw = translate.ReplaceMembers(raw, wire.Member{Name: "delta", Value: left})
		} else {
			drop = false
		}
		switch {
		case !finish:
		case h.joined:
			if entries := h.join(choice.Get("index").Int()); entries != nil {
				held = true
				left = translate.ReplaceMembers(left, wire.Member{Name: "tool_calls", Value: entries})
				raw = translate.ReplaceMembers(raw, wire.Member{Name: "delta", Value: left})
			}
		default:
			h.flushChoice(o, choice.Get("index").Int())
		}
		if len(patched) > 0 {
			patched = append(patched, ',')
		}
		patched = append(patched, raw...)
		return true
	})
	if held {
		if drop {
			return false
		}
		value := append(append([]byte{'['}, patched...), ']')
		rest = translate.ReplaceMembers(data, wire.Member{Name: "choices", Value: value})
	}
	o.Pass(name, rest)
	return false
}

// entry takes an entry of tool_calls. One that begins sends those before it on
// their way, as far as they are complete.
func (h *holder) entry(o *translate.Buffer, choice int64, entry gjson.Result, chunk []byte) {
	kind, text := textOf(entry)
	index, args := entry.Get("index").Int(), rawjson.InnerJSON(entry.Get(kind+"."+text))
	id := entry.Get("id").Str
	for i := len(h.open) - 1; i >= 0; i-- {
		c := &h.open[i]
		if c.choice == choice && c.index == index && (id == "" || gjson.GetBytes(c.entry, "id").Str == id) {
			c.args = append(c.args, args...)
			c.end.Read(args)
			return
		}
	}
	for !h.joined && len(h.open) > 0 && h.open[0].choice == choice && h.open[0].end.Complete() {
		h.send(o, &h.open[0])
		h.open = h.open[1:]
	}
	c := heldCall{choice: choice, index: index, chunk: bytes.Clone(chunk), entry: []byte(entry.Raw), args: []byte(args)}
	c.end.Read(args)
	h.open = append(h.open, c)
}

// textOf returns where an entry has the text of its call: in which member, and in which
// member of that.
func textOf(entry gjson.Result) (kind, text string) {
	if entry.Get("custom").IsObject() {
		return "custom", "input"
	}
	return "function", "arguments"
}

// whole returns the entry of a call with all its arguments. One that says nothing of a
// call stays as it came.
func (c *heldCall) whole() []byte {
	kind, text := textOf(gjson.ParseBytes(c.entry))
	call := gjson.GetBytes(c.entry, kind)
	if !call.IsObject() {
		return c.entry
	}
	arguments := append(append([]byte{'"'}, c.args...), '"')
	whole := translate.ReplaceMembers([]byte(call.Raw), wire.Member{Name: text, Value: arguments})
	return translate.ReplaceMembers(c.entry, wire.Member{Name: kind, Value: whole})
}

// join returns the calls of a choice as an array, nil if there are none.
func (h *holder) join(choice int64) (entries []byte) {
	rest := h.open[:0]
	for i := range h.open {
		if h.open[i].choice != choice {
			rest = append(rest, h.open[i])
			continue
		}
		if entries == nil {
			entries = []byte{'['}
		} else {
			entries = append(entries, ',')
		}
		entries = append(entries, h.open[i].whole()...)
	}
	h.open = rest
	if entries != nil {
		entries = append(entries, ']')
	}
	return entries
}

func (h *holder) send(o *translate.Buffer, c *heldCall) {
	choices := append([]byte(`[{"index":`), strconv.FormatInt(c.choice, 10)...)
	choices = append(choices, `,"delta":{"tool_calls":[`...)
	choices = append(choices, c.whole()...)
	choices = append(choices, `]},"finish_reason":null}]`...)
	o.Pass("", translate.ReplaceMembers(c.chunk, wire.Member{Name: "choices", Value: choices}, wire.Member{Name: "usage"}))
}

func (h *holder) flushChoice(o *translate.Buffer, choice int64) {
	rest := h.open[:0]
	for i := range h.open {
		if h.open[i].choice != choice {
			rest = append(rest, h.open[i])
			continue
		}
		h.send(o, &h.open[i])
	}
	h.open = rest
}

func (h *holder) Flush(o *translate.Buffer) {
	for i := range h.open {
		h.send(o, &h.open[i])
	}
	h.open = nil
}

func (h *holder) Weight() (n int) {
	for i := range h.open {
		n += translate.HeldWeight + len(h.open[i].chunk) + len(h.open[i].entry) + len(h.open[i].args)
	}
	return n
}
