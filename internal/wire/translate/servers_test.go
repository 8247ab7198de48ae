// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// chunks is a stream of chat completions with these deltas and an end.
func chunks(finish string, deltas ...string) string {
	var b strings.Builder
	for _, d := range deltas {
		fmt.Fprintf(&b, `data: {"id":"c1","model":"m","choices":[{"index":0,"delta":%s,"finish_reason":null}]}`+"\n\n", d)
	}
	fmt.Fprintf(&b, `data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{},"finish_reason":%q}]}`+
		"\n\ndata: [DONE]\n\n", finish)
	return b.String()
}

// TestCallsOfServers: the call fragments of local servers reach a client of the Messages API as the
// calls that the model made.
func TestCallsOfServers(t *testing.T) {
	const read = `{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"read","arguments":""}}]}`
	for _, c := range []struct {
		name, stream string
		want         []string
		reason       string
	}{
		{
			"a piece at a new index", chunks("tool_calls", read,
				`{"tool_calls":[{"index":1,"function":{"arguments":"{\"path\":\"a\"}"}}]}`),
			[]string{`read {"path":"a"}`},
			"tool_use",
		},
		{"a call of nothing", chunks("tool_calls", `{"content":"Done."}`,
			`{"tool_calls":[{"index":0,"type":"function","function":{}}]}`), nil, "end_turn"},
		{"a call without a name", chunks("tool_calls", `{"content":"Done."}`,
			`{"tool_calls":[{"index":0,"id":"x","type":"function","function":{"arguments":"{}"}}]}`), nil, "end_turn"},
		{"beside one with a name", chunks("tool_calls", read, `{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}`,
			`{"tool_calls":[{"index":1,"id":"x","function":{"arguments":"{}"}}]}`), []string{`read {}`}, "tool_use"},
		{"the older member", chunks("function_call", `{"function_call":{"name":"read","arguments":"{\"pa"}}`,
			`{"function_call":{"arguments":"th\":\"a\"}"}}`), []string{`read {"path":"a"}`}, "tool_use"},
		{"a name in pieces", chunks("tool_calls", `{"tool_calls":[{"index":0,"id":"a","function":{"name":"re"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"name":"ad"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}`), []string{`read {}`}, "tool_use"},
		{
			"a name in each piece", chunks("tool_calls",
				`{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{"}}]}`,
				`{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"}"}}]}`),
			[]string{`read {}`},
			"tool_use",
		},
		{
			"two under one index, one without an id",
			chunks("tool_calls", `{"tool_calls":[{"index":0,"function":{"name":"read","arguments":"{\"n\":1}"}}]}`,
				`{"tool_calls":[{"index":0,"id":"b","function":{"name":"read","arguments":"{\"n\":2}"}}]}`),
			[]string{`read {"n":1}`, `read {"n":2}`},
			"tool_use",
		},
		{
			"two without ids and indexes", chunks("tool_calls",
				`{"tool_calls":[{"function":{"name":"read","arguments":"{\"n\":1}"}}]}`,
				`{"tool_calls":[{"function":{"name":"read","arguments":"{\"n\":2}"}}]}`),
			[]string{`read {"n":1}`, `read {"n":2}`},
			"tool_use",
		},
		{
			"arguments that are an object", chunks("tool_calls",
				`{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":{"n":1}}}]}`),
			[]string{`read {"n":1}`},
			"tool_use",
		},
		{"a reason without calls", chunks("tool_calls", `{"content":"Done."}`), nil, "end_turn"},
	} {
		for _, buffer := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, buffer %t", c.name, buffer), func(t *testing.T) {
				out, _ := run(wire.OpenAIChat, wire.Anthropic, translate.Answering{Stream: true, Seed: "s", BufferCalls: buffer},
					[]byte(c.stream))
				turn := decoded(wire.Anthropic, true, out)
				var got []string
				for _, call := range turn.Calls {
					got = append(got, call.Name+" "+call.Arguments)
					if call.ID == "" {
						t.Errorf("the call of %s has no id", call.Name)
					}
				}
				if !slices.Equal(got, c.want) || turn.StopReason != c.reason {
					t.Errorf("got %q and %s, want %q and %s in\n%s", got, turn.StopReason, c.want, c.reason, out)
				}
			})
		}
	}
	whole := `{"id":"c1","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,` +
		`"function_call":{"name":"read","arguments":"{}"}},"finish_reason":"function_call"}]}`
	out, _ := run(wire.OpenAIChat, wire.Anthropic, translate.Answering{Seed: "s"}, []byte(whole))
	if call := gjson.GetBytes(out, "content.0"); call.Get("name").Str != "read" || call.Get("id").Str == "" {
		t.Errorf("the older member in one piece: got %s, want a call of read", out)
	}
}

// TestFaultsOfServers: invalid output is an error, and an answer is always valid UTF-8.
func TestFaultsOfServers(t *testing.T) {
	out, _ := run(wire.OpenAIChat, wire.Anthropic, translate.Answering{Stream: true, Seed: "s"},
		[]byte("error: {\"code\":500,\"message\":\"Failed to parse input\",\"type\":\"server_error\"}\n\n"))
	if turn := decoded(wire.Anthropic, true, out); !strings.Contains(turn.ErrorMessage, "Failed to parse input") {
		t.Errorf("the field error of SSE: got %s", out)
	}
	if out, s := run(wire.OpenAIChat, wire.Anthropic, translate.Answering{Stream: true, Seed: "s"},
		[]byte("data: [DONE]\n\n")); !decoded(wire.Anthropic, true, out).Failed() || !s.Ended() {
		t.Errorf("a stream of nothing but its end: got %s, want an error", out)
	}
	for _, body := range []string{`{"id":"c1","model":"m","choices":[]}`, `{"id":"c1","model":"m","choices":null}`} {
		if out, s := run(wire.OpenAIChat, wire.Anthropic, translate.Answering{Seed: "s"}, []byte(body)); s.Failure() == nil {
			t.Errorf("%s became %s, want an error", body, out)
		}
	}
	for _, stream := range []bool{true, false} {
		data := "{\"id\":\"c1\",\"model\":\"m\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\"," +
			"\"content\":\"Hi \xe2\x82 ok\"},\"finish_reason\":\"stop\"}]}"
		if stream {
			data = chunks("stop", "{\"content\":\"Hi \xe2\x82 ok\"}")
		}
		out, _ := run(wire.OpenAIChat, wire.Anthropic, translate.Answering{Stream: stream, Seed: "s"}, []byte(data))
		if turn := decoded(wire.Anthropic, stream, out); !utf8.Valid(out) || turn.Text != "Hi \uFFFD ok" {
			t.Errorf("stream %t: got %q, want %q", stream, turn.Text, "Hi \uFFFD ok")
		}
	}
}

// TestFailureBeforeTheBeginning: Codex reads response.failed only.
func TestFailureBeforeTheBeginning(t *testing.T) {
	out, _ := run(wire.OpenAIChat, wire.OpenAIResponses, translate.Answering{Stream: true, Seed: "s"},
		[]byte("data: {\"error\":{\"message\":\"prompt is too long: 9 tokens > 8 maximum context length\","+
			"\"type\":\"invalid_request_error\",\"code\":\"context_length_exceeded\"}}\n\n"))
	_, last, ok := strings.Cut(string(out), "event: response.failed\ndata: ")
	if code := gjson.Get(last, "response.error.code").Str; !ok || code != "context_length_exceeded" ||
		gjson.Get(last, "response.id").Str == "" {
		t.Errorf("got the code %q in\n%s", code, out)
	}
}
