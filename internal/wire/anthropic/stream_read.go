// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package anthropic

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// streamReader reads answers of the Messages API. Blocks of tools that the
// provider runs itself are left out: no other format has them. A stream that has said why it
// ended is complete when it is over, with or without a message_stop.
type streamReader struct {
	finished bool
}

func (a *streamReader) Event(f *translate.Flow, name string, root gjson.Result) {
	switch translate.EventType(root, name) {
	case "content_block_delta":
		a.delta(f, root.Get("delta"), root.Get("index").Int())
	case "content_block_start":
		a.block(f, root.Get("content_block"), root.Get("index").Int(), false)
	case "content_block_stop":
		if b := f.Find(root.Get("index").Int()); b != nil && !b.Done {
			a.closeCall(f, b)
			return
		}
		f.EndBlock()
	case "message_start":
		m := root.Get("message")
		f.Count(m.Get("usage"))
		f.Begin(m.Get("id").Str, m.Get("model").Str)
	case "message_delta":
		f.Count(root.Get("usage"))
		a.reason(f, root.Get("delta"))
	case "message_stop":
		f.End()
	case "ping":
		f.Ping()
	default:
		f.FailIf(name, root)
	}
}

// block opens a block; what it brings along is its first content.
func (a *streamReader) block(f *translate.Flow, block gjson.Result, index int64, whole bool) {
	switch block.Get("type").Str {
	case "text":
		f.Text(rawjson.Inner(block.Get("text")))
	case "thinking":
		f.Thinking(rawjson.Inner(block.Get("thinking")))
		if s := block.Get("signature").Str; s != "" {
			f.Sign("", strings.Clone(s), false)
		}
	case "redacted_thinking":
		f.Sign("", strings.Clone(block.Get("data").Str), true)
	case "tool_use":
		b := f.Call(index, strings.Clone(block.Get("id").Str), strings.Clone(block.Get("name").Str), "", true)
		if b == nil {
			return
		}
		// The input of a block that is about to be filled is empty.
		if input := block.Get("input").Raw; whole || input != "{}" && input != "" {
			b.Call.Initial = string(rawjson.Escaped(input))
		}
		if whole {
			a.closeCall(f, b)
		}
		return
	}
	if whole {
		f.EndBlock()
	}
}

func (a *streamReader) closeCall(f *translate.Flow, b *translate.Block) {
	if !b.Filled {
		f.Arguments(b, b.Call.Initial)
	}
	f.EndCall(b)
}

func (a *streamReader) delta(f *translate.Flow, delta gjson.Result, index int64) {
	switch delta.Get("type").Str {
	case "text_delta":
		f.Text(rawjson.Inner(delta.Get("text")))
	case "thinking_delta":
		f.Thinking(rawjson.Inner(delta.Get("thinking")))
	case "signature_delta":
		f.Sign("", strings.Clone(delta.Get("signature").Str), false)
	case "input_json_delta":
		if b := f.Find(index); b != nil {
			f.Arguments(b, rawjson.Inner(delta.Get("partial_json")))
		}
	}
}

func (a *streamReader) reason(f *translate.Flow, delta gjson.Result) {
	reason := delta.Get("stop_reason").Str
	if reason == "" {
		return
	}
	a.finished = true
	f.Answer.Sequence = strings.Clone(rawjson.Inner(delta.Get("stop_sequence")))
	f.StoppedBy(reason)
}

func (a *streamReader) Whole(f *translate.Flow, root gjson.Result) {
	content := root.Get("content")
	if !content.Exists() {
		f.FailWith(root)
		return
	}
	f.Count(root.Get("usage"))
	f.Begin(root.Get("id").Str, root.Get("model").Str)
	index := int64(0)
	content.ForEach(func(_, block gjson.Result) bool {
		a.block(f, block, index, true)
		index++
		return !f.Ended
	})
	a.reason(f, root)
	f.End()
}

func (a *streamReader) Done(*translate.Flow) {}

func (a *streamReader) EOF(f *translate.Flow) {
	if a.finished {
		f.End()
	}
}
