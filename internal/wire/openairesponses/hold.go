// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openairesponses

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// holder holds the items of calls until their arguments are done.
// Events are numbered anew, because some of them change places.
type holder struct {
	open     []heldItem
	numbered bool
	next     int64
}

type heldItem struct {
	index       int64
	added       []byte // the event that opened it
	name, delta []byte // the first event with a piece of its arguments
	args        []byte
}

func (h *holder) Event(o *translate.Buffer, name string, data []byte, root gjson.Result) bool {
	index := root.Get("output_index").Int()
	at := -1
	for i := range h.open {
		if h.open[i].index == index {
			at = i
		}
	}
	switch kind := root.Get("type").Str; kind {
	case "response.output_item.added":
		if t := root.Get("item.type").Str; t == "function_call" || t == "custom_tool_call" {
			h.number(root)
			h.open = append(h.open, heldItem{index: index, added: bytes.Clone(data)})
			return false
		}
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		if at >= 0 {
			if h.open[at].delta == nil {
				h.open[at].name, h.open[at].delta = []byte(name), bytes.Clone(data)
			}
			h.open[at].args = append(h.open[at].args, rawjson.Inner(root.Get("delta"))...)
			return false
		}
	case "response.function_call_arguments.done", "response.custom_tool_call_input.done", "response.output_item.done":
		if at >= 0 {
			h.send(o, at)
		}
	case "response.completed", "response.incomplete", "response.failed":
		h.write(o, name, data, root)
		return kind != "response.failed"
	}
	h.write(o, name, data, root)
	return false
}

func (h *holder) send(o *translate.Buffer, at int) {
	item := h.open[at]
	h.open = slices.Delete(h.open, at, at+1)
	h.write(o, "response.output_item.added", item.added, gjson.ParseBytes(item.added))
	if item.delta == nil {
		return
	}
	delta := translate.ReplaceMembers(item.delta, wire.Member{Name: "delta", Value: rawjson.Quoted(item.args)})
	h.write(o, string(item.name), delta, gjson.ParseBytes(delta))
}

// number begins the numbers with that of the first event.
func (h *holder) number(root gjson.Result) {
	if n := root.Get("sequence_number"); !h.numbered && n.Exists() {
		h.numbered, h.next = true, n.Int()
	}
}

func (h *holder) write(o *translate.Buffer, name string, data []byte, root gjson.Result) {
	h.number(root)
	if n := root.Get("sequence_number"); n.Exists() {
		if n.Int() == h.next {
			h.next++
			o.Pass(name, data)
			return
		}
		data = translate.ReplaceMembers(data, wire.Member{Name: "sequence_number", Value: strconv.AppendInt(nil, h.next, 10)})
		h.next++
	}
	o.Pass(name, data)
}

func (h *holder) Flush(o *translate.Buffer) {
	for len(h.open) > 0 {
		h.send(o, 0)
	}
}

func (h *holder) Weight() (n int) {
	for i := range h.open {
		n += translate.HeldWeight + len(h.open[i].added) + len(h.open[i].delta) + len(h.open[i].args)
	}
	return n
}
