// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package translate

import (
	"strings"

	"github.com/tidwall/gjson"
)

// anthropicReader reads answers of the Messages API. Blocks of tools that the
// provider runs itself are left out: no other format has them.
type anthropicReader struct{}

func (a *anthropicReader) event(f *flow, name string, root gjson.Result) {
	switch kind(root, name) {
	case "content_block_delta":
		a.delta(f, root.Get("delta"), root.Get("index").Int())
	case "content_block_start":
		a.block(f, root.Get("content_block"), root.Get("index").Int(), false)
	case "content_block_stop":
		if b := f.find(root.Get("index").Int()); b != nil && !b.done {
			a.closeCall(f, b)
			return
		}
		f.endBlock()
	case "message_start":
		m := root.Get("message")
		f.count(m.Get("usage"))
		f.begin(m.Get("id").Str, m.Get("model").Str)
	case "message_delta":
		f.count(root.Get("usage"))
		a.reason(f, root.Get("delta"))
	case "message_stop":
		f.end()
	case "ping":
		f.ping()
	default:
		f.failIf(name, root)
	}
}

// block opens a block; what it brings along is its first content.
func (a *anthropicReader) block(f *flow, block gjson.Result, index int64, whole bool) {
	switch block.Get("type").Str {
	case "text":
		f.text(inside(block.Get("text")))
	case "thinking":
		f.thinking(inside(block.Get("thinking")))
		if s := block.Get("signature").Str; s != "" {
			f.sign("", strings.Clone(s), false)
		}
	case "redacted_thinking":
		f.sign("", strings.Clone(block.Get("data").Str), true)
	case "tool_use":
		b := f.call(index, strings.Clone(block.Get("id").Str), strings.Clone(block.Get("name").Str), "", true)
		if b == nil {
			return
		}
		// The input of a block that is about to be filled is empty.
		if input := block.Get("input").Raw; whole || input != "{}" && input != "" {
			b.initial = string(escaped(input))
		}
		if whole {
			a.closeCall(f, b)
		}
		return
	}
	if whole {
		f.endBlock()
	}
}

func (a *anthropicReader) closeCall(f *flow, b *block) {
	if !b.filled {
		f.arguments(b, b.initial)
	}
	f.endCall(b)
}

func (a *anthropicReader) delta(f *flow, delta gjson.Result, index int64) {
	switch delta.Get("type").Str {
	case "text_delta":
		f.text(inside(delta.Get("text")))
	case "thinking_delta":
		f.thinking(inside(delta.Get("thinking")))
	case "signature_delta":
		f.sign("", strings.Clone(delta.Get("signature").Str), false)
	case "input_json_delta":
		if b := f.find(index); b != nil {
			f.arguments(b, inside(delta.Get("partial_json")))
		}
	}
}

func (a *anthropicReader) reason(f *flow, delta gjson.Result) {
	reason := delta.Get("stop_reason").Str
	if reason == "" {
		return
	}
	f.sequence = strings.Clone(inside(delta.Get("stop_sequence")))
	f.stopped(anthropicStops[reason])
}

// anthropicStops are the reasons of the Messages API. An unknown one counts as
// the proper end.
var anthropicStops = map[string]stopReason{
	"end_turn":                      stopEnd,
	"max_tokens":                    stopLength,
	"tool_use":                      stopCalls,
	"stop_sequence":                 stopSequence,
	"refusal":                       stopRefusal,
	"pause_turn":                    stopPause,
	"model_context_window_exceeded": stopContext,
}

func (a *anthropicReader) whole(f *flow, root gjson.Result) {
	content := root.Get("content")
	if !content.Exists() {
		f.failWith(root)
		return
	}
	f.count(root.Get("usage"))
	f.begin(root.Get("id").Str, root.Get("model").Str)
	index := int64(0)
	content.ForEach(func(_, block gjson.Result) bool {
		a.block(f, block, index, true)
		index++
		return !f.ended
	})
	a.reason(f, root)
	f.end()
}

func (a *anthropicReader) done(*flow) {}
func (a *anthropicReader) eof(*flow)  {}
