// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package intercept_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	_ "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/formats"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/intercept"
)

var options = intercept.Options{
	Intercepts: func(name string) bool { return name == "Now" || name == "now" },
	Watch:      func(name string) bool { return name == "Bash" || name == "bash" },
	Marks:      func() *intercept.Marks { return intercept.NewMarks([]string{"[[stub"}) },
}

// endless are answers beyond the memory limit, with a buffered call, or with texts in formats with
// whole calls.
var endless = map[wire.Format]struct{ head, piece, tail, path string }{
	wire.Anthropic: {
		`{"type":"message_start","message":{"id":"m","usage":{"input_tokens":1}}}` + "\n" +
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"n","name":"Now","input":{}}}` +
			"\n" +
			`{"type":"content_block_stop","index":0}` + "\n" +
			`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"b","name":"Bash","input":{}}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"%s"}}`,
		`{"type":"content_block_stop","index":1}` + "\n" +
			`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":"end"}}` + "\n" +
			`{"type":"content_block_stop","index":2}` + "\n" +
			`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":1}}` + "\n" +
			`{"type":"message_stop"}`,
		"delta.partial_json",
	},
	wire.OpenAIChat: {
		`{"id":"c","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"n","type":"function",` +
			`"function":{"name":"now","arguments":"{}"}}]}}]}` + "\n" +
			`{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"b","type":"function",` +
			`"function":{"name":"bash","arguments":""}}]}}]}`,
		`{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"%s"}}]}}]}`,
		`{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n[DONE]",
		"choices.0.delta.tool_calls.0.function.arguments",
	},
	wire.OpenAIResponses: {
		`{"type":"response.created","sequence_number":0,"response":{"id":"r"}}` + "\n" +
			`{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"type":"function_call",` +
			`"call_id":"n","name":"Now"}}` + "\n" +
			`{"type":"response.output_item.done","sequence_number":2,"output_index":0,"item":{"type":"function_call",` +
			`"call_id":"n","name":"Now","arguments":"{}"}}` + "\n" +
			`{"type":"response.output_item.added","sequence_number":3,"output_index":1,"item":{"type":"function_call",` +
			`"call_id":"b","name":"Bash"}}`,
		`{"type":"response.function_call_arguments.delta","sequence_number":4,"output_index":1,"delta":"%s"}`,
		`{"type":"response.output_item.done","sequence_number":5,"output_index":1,"item":{"type":"function_call",` +
			`"call_id":"b","name":"Bash","arguments":"{}"}}` + "\n" +
			`{"type":"response.completed","sequence_number":6,"response":{"id":"r","status":"completed","output":[]}}`,
		"delta",
	},
	wire.Gemini: {
		`{"candidates":[{"index":0,"content":{"parts":[{"functionCall":{"name":"Now","args":{}}}]}}]}`,
		`{"candidates":[{"index":0,"content":{"parts":[{"text":"%s"}]}}]}`,
		`{"candidates":[{"index":0,"content":{"parts":[{"functionCall":{"name":"Bash","args":{}}}]},"finishReason":"STOP"}]}`,
		"candidates.0.content.parts.0.text",
	},
	wire.Interactions: {
		`{"event_type":"interaction.created","interaction":{"id":"v"}}` + "\n" +
			`{"event_type":"step.start","index":0,"step":{"type":"function_call","id":"n","name":"Now","arguments":{}}}` + "\n" +
			`{"event_type":"step.stop","index":0}` + "\n" +
			`{"event_type":"step.start","index":1,"step":{"type":"function_call","id":"b","name":"Bash","arguments":{}}}`,
		`{"event_type":"step.delta","index":1,"delta":{"type":"arguments_delta","arguments":"%s"}}`,
		`{"event_type":"step.stop","index":1}` + "\n" +
			`{"event_type":"step.start","index":2,"step":{"type":"model_output"}}` + "\n" +
			`{"event_type":"step.stop","index":2}` + "\n" +
			`{"event_type":"interaction.completed","interaction":{"id":"v","status":"requires_action"}}`,
		"delta.arguments",
	},
}

// TestRelayBounds: an answer beyond the memory limit reaches the client whole, call and end
// included, in bounded memory. Intercepted calls stay intercepted, without a continuation.
func TestRelayBounds(t *testing.T) {
	const pieces = wire.MaxAnswer>>19 + 8
	text := strings.Repeat("x", 1<<19)
	for f, c := range endless {
		t.Run(string(f), func(t *testing.T) {
			event := func(data string) []byte { return []byte("data: " + data + "\n\n") }
			before := heap()
			r := intercept.NewInterceptor(f, options)
			p := framing.SSEFramer{Limit: 1 << 30}
			got, whole, ended := 0, false, false
			emit := func(e framing.Event) {
				root := gjson.ParseBytes(e.Data)
				got += len(root.Get(c.path).Str)
				data := string(e.Data)
				if strings.Contains(data, "Now") || strings.Contains(data, "now") {
					t.Errorf("the intercepted call is shown: %.200s", data)
				}
				whole = whole || strings.Contains(data, "Bash") || strings.Contains(data, "bash")
				if index := root.Get("index"); (f == wire.Anthropic || f == wire.Interactions) && index.Exists() &&
					index.Int() > 1 {
					t.Errorf("a block has the number %d", index.Int())
				}
				if index := root.Get("output_index"); index.Exists() && index.Int() != 0 {
					t.Errorf("an item has the number %d", index.Int())
				}
				ended = ended || r.Ended()
			}
			feed := func(data string) {
				for line := range strings.SplitSeq(data, "\n") {
					p.Feed(r.Feed(event(line)), emit)
				}
			}
			feed(c.head)
			for range pieces {
				feed(fmt.Sprintf(c.piece, text))
			}
			p = framing.SSEFramer{Limit: p.Limit}
			if n := heap() - before; n > 24<<20 {
				t.Errorf("%d MiB are held", n>>20)
			}
			feed(c.tail)
			if got != pieces*len(text) || !whole || !ended || r.Asks() {
				t.Errorf("%d bytes of %d, call %t, end %t, asks %t", got, pieces*len(text), whole, ended, r.Asks())
			}
			runtime.KeepAlive(r)
		})
	}
}

// heap returns the memory in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestRelayManyBlocks: the same for an answer with too many blocks.
func TestRelayManyBlocks(t *testing.T) {
	r := intercept.NewInterceptor(wire.Anthropic, options)
	var out strings.Builder
	feed := func(data string) { out.Write(r.Feed([]byte("data: " + data + "\n\n"))) }
	feed(`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"n","name":"Now","input":{}}}`)
	feed(`{"type":"content_block_stop","index":0}`)
	const blocks = 3 * wire.MaxCalls
	for i := 1; i <= blocks; i++ {
		feed(fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"text","text":"t"}}`, i))
		feed(fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i))
	}
	if blocks, parts := r.Remembered(); blocks > wire.MaxCalls+1 || parts > wire.MaxCalls+1 {
		t.Errorf("%d blocks and %d parts are remembered", blocks, parts)
	}
	next := int64(0)
	var p framing.SSEFramer
	p.Feed([]byte(out.String()), func(e framing.Event) {
		root := gjson.ParseBytes(e.Data)
		if root.Get("index").Int() != next {
			t.Fatalf("block %d follows %d", root.Get("index").Int(), next)
		}
		if root.Get("type").Str == "content_block_stop" {
			next++
		}
	})
	if next != blocks {
		t.Errorf("%d blocks of %d", next, blocks)
	}
}
