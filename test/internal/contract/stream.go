// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"reflect"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
)

// anthropicStream checks the order: message_start, blocks one after another, message_delta,
// message_stop.
func (f *findings) anthropicStream(events []event, cut bool) {
	s := anthropicStreamed{findings: f, ids: map[string]bool{}}
	for _, e := range events {
		if e.value == nil {
			f.add("", "has an event that is no JSON")
			continue
		}
		kind := e.value.String("type")
		if e.name != kind {
			f.add("", "has an event named %q of type %q", e.name, kind)
		}
		if kind == "ping" || kind == "error" {
			s.failed = s.failed || kind == "error"
			continue
		}
		f.shape(kind, e.value, reflect.TypeFor[anthropic.BetaRawMessageStreamEventUnion]())
		s.event(kind, e.value)
	}
	if !cut && !s.failed && s.state != "message_stop" {
		f.add("", "ends in %q", s.state)
	}
}

type anthropicStreamed struct {
	*findings
	state  string // the last event
	open   *Value // the open block
	next   float64
	input  strings.Builder
	ids    map[string]bool
	failed bool
}

func (s *anthropicStreamed) event(kind string, v *Value) {
	if (kind == "message_start") != (s.state == "") {
		s.add(kind, "comes behind %q", s.state)
	}
	if s.state == "message_stop" || s.state == "message_delta" && kind != "message_stop" && kind != "message_delta" {
		s.add(kind, "comes behind %q", s.state)
	}
	s.state = kind
	switch kind {
	case "message_start":
		if v.String("message", "id") == "" || len(v.List("message", "content")) > 0 {
			s.add(kind, "has no id, or content")
		}
	case "content_block_start":
		if s.open != nil || number(v.Get("index")) != s.next {
			s.add(kind, "is out of order")
		}
		s.open = v.Get("content_block")
		s.input.Reset()
		if s.open.String("type") == "tool_use" {
			s.id("content_block.id", s.open.String("id"), s.ids)
		}
	case "content_block_delta":
		s.delta(v)
	case "content_block_stop":
		if s.open == nil || number(v.Get("index")) != s.next {
			s.add(kind, "is out of order")
			return
		}
		if s.open.String("type") == "tool_use" && s.input.Len() > 0 {
			s.arguments("content_block.input", &Value{Kind: String, Text: s.input.String()})
		}
		s.open, s.next = nil, s.next+1
	case "message_delta":
		if s.open != nil {
			s.add(kind, "comes while a block is open")
		}
		s.anthropicStop("message_delta.delta.stop_reason", v.String("delta", "stop_reason"), len(s.ids) > 0)
	}
}

// delta checks that a delta matches the type of its block.
func (s *anthropicStreamed) delta(v *Value) {
	kind := v.String("delta", "type")
	if s.open == nil || number(v.Get("index")) != s.next {
		s.add("content_block_delta", "is out of order")
		return
	}
	want := map[string]string{
		"text_delta": "text", "citations_delta": "text", "thinking_delta": "thinking", "signature_delta": "thinking",
		"input_json_delta": "tool_use",
	}[kind]
	if block := s.open.String("type"); want != "" && want != strings.TrimPrefix(block, "server_") {
		s.add("content_block_delta", "has %s in a block of %s", kind, block)
	}
	s.input.WriteString(v.String("delta", "partial_json"))
}

// chatStream checks for chunks of one id, calls by index, one finish_reason, and [DONE].
func (f *findings) chatStream(events []event, cut bool) {
	var id, finish string
	calls, done, failed := map[string]*strings.Builder{}, false, false
	ids := map[string]bool{}
	for i, e := range events {
		switch {
		case e.data == "[DONE]":
			done = true
			if i+1 < len(events) {
				f.add("", "goes on behind [DONE]")
			}
			continue
		case e.value == nil:
			f.add("", "has an event that is no JSON")
			continue
		case e.value.Has("error"):
			failed = true
			continue
		}
		f.shape("", e.value, reflect.TypeFor[openai.ChatCompletionChunk]())
		if next := e.value.String("id"); id == "" {
			id = next
		} else if next != id {
			f.add("id", "changes")
		}
		for _, choice := range e.value.List("choices") {
			if finish != "" {
				f.add("choices[]", "goes on behind its finish_reason")
			}
			for _, c := range choice.List("delta", "tool_calls") {
				f.chatCall(c, calls, ids)
			}
			finish = choice.String("finish_reason")
		}
	}
	if cut || failed {
		return
	}
	for _, text := range calls {
		f.arguments("choices[].delta.tool_calls[].function.arguments", &Value{Kind: String, Text: text.String()})
	}
	f.chatFinish(finish, len(calls) > 0)
	if !done {
		f.add("", "ends without [DONE]")
	}
}

func (f *findings) chatCall(c *Value, calls map[string]*strings.Builder, ids map[string]bool) {
	index := c.Get("index")
	if index == nil {
		f.add("choices[].delta.tool_calls[].index", "is missing")
		return
	}
	if calls[index.Text] == nil {
		calls[index.Text] = new(strings.Builder)
		f.id("choices[].delta.tool_calls[].id", c.String("id"), ids)
		if c.String("function", "name") == "" || c.String("type") != "function" {
			f.add("choices[].delta.tool_calls[]", "begins without a name or its type")
		}
	}
	_, _ = calls[index.Text].WriteString(c.String("function", "arguments"))
}

// responsesStream checks for events in sequence, items by index, items equal to their deltas, and a
// last event with all items.
func (f *findings) responsesStream(events []event, cut bool) {
	s := responsesStreamed{findings: f, text: map[string]*strings.Builder{}, ids: map[string]bool{}}
	last := ""
	for i, e := range events {
		if e.data == "[DONE]" {
			continue
		}
		if e.value == nil {
			f.add("", "has an event that is no JSON")
			continue
		}
		kind := e.value.String("type")
		if e.name != kind {
			f.add("", "has an event named %q of type %q", e.name, kind)
		}
		f.shape(kind, e.value, reflect.TypeFor[responses.ResponseStreamEventUnion]())
		if n := e.value.Get("sequence_number"); n != nil && number(n) != float64(i) {
			f.add("sequence_number", "is out of order")
		}
		if i == 0 && kind != "response.created" && kind != "error" {
			f.add("", "begins with %s", kind)
		}
		s.event(kind, e.value)
		last = kind
	}
	if cut {
		return
	}
	switch last {
	case "response.completed", "response.incomplete", "response.failed", "error":
	default:
		f.add("", "ends with %q", last)
	}
}

type responsesStreamed struct {
	*findings
	items []string // as in their done events
	open  int      // number of items not done
	added int
	text  map[string]*strings.Builder // by item, kind and part
	ids   map[string]bool
}

func (s *responsesStreamed) event(kind string, v *Value) {
	switch kind {
	case "response.output_item.added":
		if int(number(v.Get("output_index"))) != s.added {
			s.add("output_index", "is out of order")
		}
		s.added++
		s.open++
		s.id("item.id", v.String("item", "id"), s.ids)
	case "response.output_item.done":
		s.open--
		if !s.ids[v.String("item", "id")] {
			s.add("item.id", "was never added")
		}
		if v.Has("item") {
			s.items = append(s.items, v.Get("item").Without(""))
		}
		s.arguments("item.arguments", v.Get("item", "arguments"))
	case "response.completed", "response.incomplete":
		s.responsesAnswer("response.", v.Get("response"))
		if s.open > 0 && kind == "response.completed" {
			s.add(kind, "comes while an item is open")
		}
		items := v.List("response", "output")
		output := make([]string, 0, len(items))
		for _, item := range items {
			output = append(output, item.Without(""))
		}
		if kind == "response.completed" && strings.Join(output, "\n") != strings.Join(s.items, "\n") {
			s.add("response.output", "is not what was done")
		}
	}
	s.pieces(kind, v)
}

// pieces checks that a finished text equals its deltas.
func (s *responsesStreamed) pieces(kind string, v *Value) {
	if id := v.String("item_id"); id != "" && !s.ids[id] {
		s.add("item_id", "was never added")
	}
	what, piece := strings.CutSuffix(kind, ".delta")
	var part strings.Builder
	for _, index := range []string{"content_index", "summary_index"} {
		if n := v.Get(index); n != nil {
			part.WriteString(n.Text)
		}
	}
	key := v.String("item_id") + " " + part.String() + " "
	if piece {
		if s.text[key+what] == nil {
			s.text[key+what] = new(strings.Builder)
		}
		_, _ = s.text[key+what].WriteString(v.String("delta"))
		return
	}
	what, done := strings.CutSuffix(kind, ".done")
	said := s.text[key+what]
	if !done || said == nil {
		return
	}
	for _, member := range []string{"text", "arguments", "input", "refusal"} {
		if m := v.Get(member); m != nil && m.Kind == String && m.Text != said.String() {
			s.add(kind, "is not what was said")
		}
	}
}

func (f *findings) geminiStream(events []event, cut bool) {
	var chunks []*Value
	for _, e := range events {
		if e.value == nil {
			f.add("", "has an event that is no JSON")
			continue
		}
		if e.value.Has("error") {
			cut = true
			continue
		}
		chunks = append(chunks, e.value)
	}
	f.geminiChunks(chunks, cut)
}
