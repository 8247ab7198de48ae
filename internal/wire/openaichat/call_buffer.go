// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openaichat

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// callBuffer buffers the entries of tool_calls until the next call begins or the choice has a
// finish_reason.
type callBuffer struct {
	choices map[int64]*bufferedChoice
	open    []*bufferedCall // in the order in which they began
	joined  bool            // all calls of a choice go into the chunk with its finish_reason

	// The entry being read, and its chunk.
	out          *translate.Buffer
	entry, chunk []byte
}

// bufferedChoice reads the calls of one choice with an answerReader.
type bufferedChoice struct {
	h     *callBuffer
	index int64
	read  answerReader
	calls []*bufferedCall // indexed by the reader's numbers of calls
	next  int64           // the lowest free index
	ids   map[string]bool // of the calls sent since the reader began
}

// bufferedCall is a call of one choice: its first entry, and all its arguments.
type bufferedCall struct {
	choice      *bufferedChoice
	index       int64 // -1 if the call needs none
	id, name    string
	chunk       []byte // the chunk with the call's first entry
	entry, args []byte
	sent        bool
	more        bool // a part of the call was sent before
}

func (h *callBuffer) Event(o *translate.Buffer, name string, data []byte, root gjson.Result) bool {
	choices := root.Get("choices")
	rest := data // the chunk without its calls
	drop := choices.IsArray() && !root.Get("usage").IsObject()
	var patched []byte
	buffered := false
	choices.ForEach(func(_, choice gjson.Result) bool {
		delta := choice.Get("delta")
		calls := delta.Get("tool_calls")
		finish := choice.Get("finish_reason").Str != ""
		raw, left := []byte(choice.Raw), []byte("{}")
		if delta.IsObject() {
			left = []byte(delta.Raw)
		}
		if calls.IsArray() {
			buffered = true
			calls.ForEach(func(_, entry gjson.Result) bool {
				h.take(o, choice.Get("index").Int(), entry, data)
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
				buffered = true
				left = translate.ReplaceMembers(left, wire.Member{Name: "tool_calls", Value: entries})
				raw = translate.ReplaceMembers(raw, wire.Member{Name: "delta", Value: left})
			}
		default:
			h.flushChoice(o, choice.Get("index").Int())
		}
		patched = rawjson.AppendElement(patched, raw)
		return true
	})
	if buffered {
		if drop {
			return false
		}
		value := rawjson.Array(patched)
		rest = translate.ReplaceMembers(data, wire.Member{Name: "choices", Value: value})
	}
	o.Pass(name, rest)
	return false
}

// Whole returns an answer in one piece in which each call has an id of its own and its arguments as a string.
func (h *callBuffer) Whole(body []byte) []byte {
	var choices []byte
	changed := false
	gjson.GetBytes(body, "choices").ForEach(func(_, choice gjson.Result) bool {
		raw, message := []byte(choice.Raw), choice.Get("message")
		if calls := message.Get("tool_calls"); calls.IsArray() {
			c := &bufferedChoice{index: choice.Get("index").Int()}
			var entries []byte
			calls.ForEach(func(_, entry gjson.Result) bool {
				read := readCall(entry)
				call := bufferedCall{
					choice: c, index: -1, id: read.id, name: read.name, chunk: body, entry: []byte(entry.Raw), args: []byte(read.arguments),
				}
				whole := call.whole()
				changed = changed || string(whole) != entry.Raw
				entries = rawjson.AppendElement(entries, whole)
				return true
			})
			value := translate.ReplaceMembers([]byte(message.Raw), wire.Member{Name: "tool_calls", Value: rawjson.Array(entries)})
			raw = translate.ReplaceMembers(raw, wire.Member{Name: "message", Value: value})
		}
		choices = rawjson.AppendElement(choices, raw)
		return true
	})
	if !changed {
		return body
	}
	return translate.ReplaceMembers(body, wire.Member{Name: "choices", Value: rawjson.Array(choices)})
}

// take buffers an entry of tool_calls. The start of a call sends the complete calls before it.
func (h *callBuffer) take(o *translate.Buffer, choice int64, entry gjson.Result, chunk []byte) {
	c := h.choices[choice]
	if c == nil {
		c = &bufferedChoice{h: h, index: choice}
		c.read.Sink = c
		if h.choices == nil {
			h.choices = map[int64]*bufferedChoice{}
		}
		h.choices[choice] = c
	}
	// The reader counts at most MaxCalls calls, so a new one takes over.
	if c.read.Last() == wire.MaxCalls-1 {
		c.read, c.calls, c.ids = answerReader{Teller: wire.Teller{Sink: c}}, nil, nil
	}
	h.out, h.entry, h.chunk = o, []byte(entry.Raw), chunk
	c.read.call(readCall(entry), entry.Get("index").Int(), false)
}

// Take implements [wire.Sink].
func (c *bufferedChoice) Take(e *wire.Event) {
	switch e.Kind {
	case wire.EventCall:
		c.h.sendComplete(c)
		call := &bufferedCall{
			choice: c, index: c.next, id: strings.Clone(e.ID), name: strings.Clone(e.Name),
			chunk: bytes.Clone(c.h.chunk), entry: c.h.entry,
		}
		c.next++
		c.calls, c.h.open = append(c.calls, call), append(c.h.open, call)
	case wire.EventCallName:
		c.calls[e.Call].id, c.calls[e.Call].name = strings.Clone(e.ID), strings.Clone(e.Name)
	case wire.EventArguments:
		call := c.calls[e.Call]
		if call.sent && c.read.Complete(e.Call) {
			return // arguments after the end of the call belong to no call
		}
		if call.sent { // the call was sent incomplete; buffer the rest
			call.sent, call.more = false, true
			call.chunk, call.entry = bytes.Clone(c.h.chunk), c.h.entry
			c.h.open = append(c.h.open, call)
		}
		call.args = append(call.args, e.Text...)
	}
}

// sendComplete sends the calls of a choice up to the first incomplete one.
func (h *callBuffer) sendComplete(c *bufferedChoice) {
	for i, call := range c.calls {
		switch {
		case call.sent:
		case h.joined || !c.read.Complete(i):
			return
		default:
			h.send(h.out, call)
		}
	}
}

// textOf returns the names of the members with the call and with its arguments.
func textOf(entry gjson.Result) (kind, text string) {
	if entry.Get("custom").IsObject() {
		return "custom", "input"
	}
	return "function", "arguments"
}

// whole returns the entry of a call with all its arguments, a unique index and an id.
func (c *bufferedCall) whole() []byte {
	kind, text := textOf(gjson.ParseBytes(c.entry))
	call := gjson.GetBytes(c.entry, kind)
	// Other entries pass unchanged.
	if !call.IsObject() {
		return c.entry
	}
	members := []wire.Member{{Name: text, Value: rawjson.Quoted(c.args)}}
	if !c.more && call.Get("name").Str != c.name {
		members = append(members, wire.Member{Name: "name", Value: rawjson.Quote(c.name)})
	}
	entry := []wire.Member{{Name: kind, Value: translate.ReplaceMembers([]byte(call.Raw), members...)}}
	if index := strconv.AppendInt(nil, c.index, 10); c.index >= 0 &&
		gjson.GetBytes(c.entry, "index").Raw != string(index) {
		entry = append(entry, wire.Member{Name: "index", Value: index})
	}
	c.identify()
	if !c.more && gjson.GetBytes(c.entry, "id").Str != c.id {
		entry = append(entry, wire.Member{Name: "id", Value: rawjson.Quote(c.id)})
	}
	return translate.ReplaceMembers(c.entry, entry...)
}

// identify gives a call an id if it has none, or that of another call.
func (c *bufferedCall) identify() {
	if c.more {
		return
	}
	if c.id == "" || c.choice.ids[c.id] {
		c.id = c.inventID()
	}
	if c.choice.ids == nil {
		c.choice.ids = map[string]bool{}
	}
	c.choice.ids[c.id] = true
}

// inventID returns an id for a call without one. It is a hash of the answer id and the position.
func (c *bufferedCall) inventID() string {
	h := fnv.New64a()
	_, _ = io.WriteString(h, gjson.GetBytes(c.chunk, "id").Str)
	_, _ = fmt.Fprintf(h, "/%d/%d", c.choice.index, len(c.choice.ids))
	return "call_" + strconv.FormatUint(h.Sum64(), 36)
}

// join returns the calls of a choice as an array, nil if there are none.
func (h *callBuffer) join(choice int64) (entries []byte) {
	for _, c := range h.open {
		if c.choice.index != choice {
			continue
		}
		if !c.empty() {
			entries = rawjson.AppendElement(entries, c.whole())
		}
		c.sent = true
	}
	h.forget()
	if entries == nil {
		return nil
	}
	return rawjson.Array(entries)
}

// empty reports whether the entry is a function without a name, which is no call.
func (c *bufferedCall) empty() bool {
	kind, _ := textOf(gjson.ParseBytes(c.entry))
	return c.name == "" && !c.more && gjson.GetBytes(c.entry, kind).IsObject()
}

func (h *callBuffer) send(o *translate.Buffer, c *bufferedCall) {
	if c.sent = true; c.empty() {
		return
	}
	delta := rawjson.Object("tool_calls", rawjson.Array(c.whole()))
	choices := rawjson.Array(rawjson.Object("index", c.choice.index, "delta", delta, "finish_reason", []byte("null")))
	o.Pass("", translate.ReplaceMembers(c.chunk, wire.Member{Name: "choices", Value: choices}, wire.Member{Name: "usage"}))
}

func (h *callBuffer) flushChoice(o *translate.Buffer, choice int64) {
	for _, c := range h.open {
		if c.choice.index == choice && !c.sent {
			h.send(o, c)
		}
	}
	h.forget()
}

// forget drops the sent calls from the buffer.
func (h *callBuffer) forget() {
	h.open = slices.DeleteFunc(h.open, func(c *bufferedCall) bool {
		if c.sent {
			c.chunk, c.entry, c.args = nil, nil, nil
		}
		return c.sent
	})
}

func (h *callBuffer) Flush(o *translate.Buffer) {
	for _, c := range h.open {
		if !c.sent {
			h.send(o, c)
		}
	}
	h.forget()
}

func (h *callBuffer) Weight() (n int) {
	for _, c := range h.open {
		n += translate.CallWeight + len(c.chunk) + len(c.entry) + len(c.args)
	}
	return n
}
