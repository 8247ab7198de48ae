// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
)

// dataOf returns the JSON of each event of a stream.
func dataOf(stream string) (events []gjson.Result) {
	var p framing.SSEFramer
	p.Feed([]byte(stream), func(e framing.Event) {
		if gjson.ValidBytes(e.Data) {
			events = append(events, gjson.Parse(string(e.Data)))
		}
	})
	return events
}

// nameless is a stream with two calls without ids, whose arguments come
// interleaved.
var nameless = []string{
	`data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"Read",` +
		`"arguments":"{\"a\""}},{"index":1,"function":{"name":"Read","arguments":"{\"b\""}}]}}]}`,
	`data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}},` +
		`{"index":1,"function":{"arguments":":2}"}}]}}]}`,
	`data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`,
	`data: [DONE]`,
}

// TestCallsWithoutIDs get an id each, and the same ones when the request is sent
// again. So do calls to which the upstream gives one id twice.
func TestCallsWithoutIDs(t *testing.T) {
	t.Parallel()
	for name, events := range map[string][]string{
		"none": nameless,
		"the same": {
			strings.ReplaceAll(nameless[0], `,"function"`, `,"id":"call_0","function"`), nameless[1], nameless[2],
			nameless[3],
		},
	} {
		for _, buffer := range []string{"on", "off"} {
			t.Run(name+" "+buffer, func(t *testing.T) {
				u := newUpstream(t, stream(events...))
				p := start(t, "llm_cache {\n upstream mlx_lm\n buffer_tool_calls "+buffer+"\n}\nreverse_proxy "+
					u.Listener.Addr().String())
				var ids []string
				for range 2 {
					got := read(t, p.post("/v1/messages", conversation(0, true)))
					turn := turnOf(wire.Anthropic, true, got)
					if len(turn.Calls) != 2 || turn.Calls[0].ID == "" || turn.Calls[1].ID == "" ||
						turn.Calls[0].ID == turn.Calls[1].ID ||
						turn.Calls[0].Arguments != `{"a":1}` || turn.Calls[1].Arguments != `{"b":2}` {
						t.Fatalf("calls are %+v of\n%s", turn.Calls, got)
					}
					ids = append(ids, turn.Calls[0].ID+turn.Calls[1].ID)
				}
				if ids[0] != ids[1] {
					t.Errorf("ids are %s, and then %s", ids[0], ids[1])
				}
			})
		}
	}
}

// TestCallsInOneEvent: with buffer_tool_calls each call is one event of a stream
// of chat completions, and with joined all are in the last one, translated or not.
func TestCallsInOneEvent(t *testing.T) {
	t.Parallel()
	anthropic := []string{
		"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"model\":\"m\"," +
			"\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}",
		`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"I \"look\"."}}`,
		`data: {"type":"content_block_stop","index":0}`,
		`data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"call_a","name":"Read",` +
			`"input":{}}}`,
		`data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"file_path\""}}`,
		`data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":":\"/a\"}"}}`,
		`data: {"type":"content_block_stop","index":1}`,
		`data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"call_b","name":"Read",` +
			`"input":{}}}`,
		`data: {"type":"content_block_stop","index":2}`,
		`data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":5}}`,
		`data: {"type":"message_stop"}`,
	}
	for name, c := range map[string]struct {
		upstream string
		events   []string
	}{"in the client's format": {"mlx_lm", chatEvents}, "translated": {"anthropic", anthropic}} {
		for _, buffer := range []string{"on", "joined"} {
			t.Run(name+" "+buffer, func(t *testing.T) {
				u := newUpstream(t, stream(c.events...))
				p := start(t, "llm_cache {\n upstream "+c.upstream+"\n buffer_tool_calls "+buffer+"\n}\nreverse_proxy "+
					u.Listener.Addr().String())
				got := read(t, p.post("/v1/chat/completions",
					`{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`))
				turn := turnOf(wire.OpenAIChat, true, got)
				if !turn.Done || turn.Text != `I "look".` || turn.StopReason != "tool_calls" || len(turn.Calls) != 2 ||
					turn.Calls[0] != (wire.Call{ID: "call_a", Name: "Read", Arguments: `{"file_path":"/a"}`}) ||
					turn.Calls[1].Arguments != "{}" {
					t.Fatalf("turn is %+v of\n%s", turn, got)
				}
				var counts []int
				for _, e := range dataOf(got) {
					choice := e.Get("choices.0")
					n := int(choice.Get("delta.tool_calls.#").Int())
					if n == 0 {
						continue
					}
					counts = append(counts, n)
					if finish := choice.Get("finish_reason").Str; (finish == "tool_calls") != (buffer == "joined") {
						t.Errorf("calls beside finish_reason %q in %s", finish, e.Raw)
					}
				}
				if buffer == "joined" && (len(counts) != 1 || counts[0] != 2) || buffer == "on" &&
					(len(counts) != 2 || counts[0]*counts[1] != 1) {
					t.Errorf("events with %v calls in\n%s", counts, got)
				}
			})
		}
	}
}

// TestEventsWithoutType: servers of the Responses API that name their events in
// the event field alone, and send arguments as an object.
func TestEventsWithoutType(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, stream(
		"event: response.created\ndata: {\"response\":{\"id\":\"resp_1\",\"model\":\"m\",\"output\":[]}}",
		"event: response.output_text.delta\ndata: {\"output_index\":0,\"delta\":\"Hello\"}",
		"event: response.output_item.done\ndata: {\"output_index\":1,\"item\":{\"type\":\"function_call\","+
			"\"call_id\":\"c1\",\"name\":\"f\",\"arguments\":{\"a\": 1}}}",
		"event: response.completed\ndata: {\"response\":{\"id\":\"resp_1\",\"usage\":{\"input_tokens\":3,"+
			"\"output_tokens\":2}}}",
	))
	p := start(t, "llm_cache {\n upstream {\n format openai_responses\n }\n}\nreverse_proxy "+u.Listener.Addr().String())
	got := read(t, p.post("/v1/messages", conversation(0, true)))
	turn := turnOf(wire.Anthropic, true, got)
	if !turn.Done || turn.Text != "Hello" || len(turn.Calls) != 1 || turn.Calls[0].Arguments != `{"a": 1}` ||
		turn.Usage.Uncached != 3 {
		t.Errorf("turn is %+v of\n%s", turn, got)
	}
}

// TestArgumentsAsObject: what a client sends as an object in the place of its
// text reaches the upstream all the same.
func TestArgumentsAsObject(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, answerMessage)
	p := start(t, behind(u, "anthropic"))
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"model":"m","messages":[{"role":"user","content":"x"},{"role":"assistant",` +
			`"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":{"a": 1.0}}}]},{"role":"tool",` +
			`"tool_call_id":"c","content":"y"}]}`,
		"/v1/responses": `{"model":"m","input":[{"role":"user","content":"x"},{"type":"function_call",` +
			`"call_id":"c","name":"f","arguments":{"a": 1.0}},{"type":"function_call_output","call_id":"c","output":"y"}]}`,
	} {
		if res := p.post(path, body); res.StatusCode != http.StatusOK ||
			!strings.Contains(u.last().body, `"input":{"a": 1.0}`) {
			t.Errorf("%s: status %d, sent %s", path, res.StatusCode, u.last().body)
		}
	}
}

// TestUnsignedCalls: a Gemini client gets something in the place of a signature
// with the first call of a turn, and what it hands back is not taken for one.
func TestUnsignedCalls(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, stream(chatEvents...))
	p := start(t, behind(u, "mlx_lm"))
	got := read(t, p.post("/v1beta/models/gemini-3.1-pro:streamGenerateContent?alt=sse",
		`{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}`))
	var content string
	calls := 0
	for _, e := range dataOf(got) {
		e.Get("candidates.0.content.parts").ForEach(func(_, part gjson.Result) bool {
			if part.Get("functionCall").Exists() {
				if signed := part.Get("thoughtSignature").Str != ""; signed != (calls == 0) {
					t.Errorf("call %d is %s", calls, part.Raw)
				}
				calls++
				content += "," + part.Raw
			}
			return true
		})
	}
	if calls != 2 {
		t.Fatalf("%d calls in\n%s", calls, got)
	}
	for name, history := range map[string]string{
		"as it came": content,
		"as Python has it": strings.Replace(content, "skip/thought/signature/validator", "skip_thought_signature_validator",
			1),
	} {
		body := `{"contents":[{"role":"user","parts":[{"text":"Hi"}]},{"role":"model","parts":[` + history[1:] +
			`]},{"role":"user","parts":[{"functionResponse":{"id":"call_a","name":"Read","response":{"output":"1"}}},` +
			`{"functionResponse":{"id":"call_b","name":"Read","response":{"output":"2"}}}]}]}`
		res := p.post("/v1beta/models/gemini-3.1-pro:streamGenerateContent?alt=sse", body)
		sent := u.last().body
		if res.StatusCode != http.StatusOK || strings.Contains(sent, "thought") || strings.Contains(sent, "validator") ||
			strings.Contains(sent, "_sig_") ||
			!strings.Contains(sent, `"id":"call_a"`) || !strings.Contains(sent, `"tool_call_id":"call_b"`) ||
			res.Header.Get("X-Llm-Cache-Dropped") != "" {
			t.Errorf("%s: status %d, dropped %q, sent %s", name, res.StatusCode, res.Header.Get("X-Llm-Cache-Dropped"), sent)
		}
	}
}

// TestCustomCalls: a chat client's tool that takes free text is called as one,
// though to the upstream it is a function.
func TestCustomCalls(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n == 1 {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"id":"msg_1","type":"message","role":"assistant","model":"m",` +
				`"content":[{"type":"tool_use","id":"c","name":"sh","input":{"input":"ls \"a\""}}],"stop_reason":"tool_use",` +
				`"usage":{"input_tokens":1,"output_tokens":1}}`))
			return
		}
		stream(
			`data: {"type":"message_start","message":{"id":"msg_1","model":"m","usage":{"input_tokens":3,"output_tokens":1}}}`,
			`data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c","name":"sh","input":{}}}`,
			`data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta",`+
				`"partial_json":"{\"input\":\"ls "}}`,
			`data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"\\\"a\\\"\"}"}}`,
			`data: {"type":"content_block_stop","index":0}`,
			`data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":5}}`,
			`data: {"type":"message_stop"}`,
		)(w, r, n)
	})
	p := start(t, behind(u, "anthropic"))
	for _, streamed := range []string{"false", "true"} {
		got := read(t, p.post("/v1/chat/completions", `{"model":"m","stream":`+streamed+
			`,"tools":[{"type":"custom","custom":{"name":"sh"}}],"messages":[{"role":"user","content":"x"}]}`))
		if !strings.Contains(got, `"id":"c","type":"custom","custom":{"name":"sh","input":"ls \"a\""}}]`) ||
			strings.Contains(got, "function") {
			t.Errorf("stream %s: %s", streamed, got)
		}
	}
}
