// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package interactions

import (
	"bytes"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// holder holds the steps of calls until their arguments are done.
type holder struct{ open []heldStep }

type heldStep struct {
	index       int64
	started     []byte // the event that began it
	name, delta []byte // the first event with a piece of its arguments
	args        []byte
}

func (h *holder) Event(o *translate.Buffer, name string, data []byte, root gjson.Result) bool {
	index := root.Get("index").Int()
	at := slices.IndexFunc(h.open, func(s heldStep) bool { return s.index == index })
	switch root.Get("event_type").Str {
	case "step.start":
		if root.Get("step.type").Str == "function_call" {
			h.open = append(h.open, heldStep{index: index, started: bytes.Clone(data)})
			return false
		}
	case "step.delta":
		if at >= 0 && root.Get("delta.type").Str == "arguments_delta" {
			s := &h.open[at]
			if s.delta == nil {
				s.name, s.delta = []byte(name), bytes.Clone(data)
			}
			s.args = append(s.args, rawjson.Inner(root.Get("delta.arguments"))...)
			return false
		}
	case "step.stop":
		if at >= 0 {
			h.send(o, at)
		}
	case "interaction.completed":
		h.Flush(o)
		o.Pass(name, data)
		return true
	}
	o.Pass(name, data)
	return false
}

func (h *holder) send(o *translate.Buffer, at int) {
	s := h.open[at]
	h.open = slices.Delete(h.open, at, at+1)
	o.Pass("step.start", s.started)
	if s.delta == nil {
		return
	}
	delta := translate.ReplaceMembers([]byte(gjson.GetBytes(s.delta, "delta").Raw), wire.Member{Name: "arguments", Value: rawjson.Quoted(s.args)})
	o.Pass(string(s.name), translate.ReplaceMembers(s.delta, wire.Member{Name: "delta", Value: delta}))
}

func (h *holder) Flush(o *translate.Buffer) {
	for len(h.open) > 0 {
		h.send(o, 0)
	}
}

func (h *holder) Weight() (n int) {
	for i := range h.open {
		n += translate.HeldWeight + len(h.open[i].started) + len(h.open[i].delta) + len(h.open[i].args)
	}
	return n
}
