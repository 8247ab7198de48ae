// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/seal"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// long is an answer with a call beyond the memory limit.
var long = map[wire.Format][2]string{
	wire.Anthropic: {
		`{"type":"message_start","message":{"id":"m","usage":{"input_tokens":1}}}` + "\n" +
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"b","name":"bash","input":{}}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"%"}}`,
	},
	wire.OpenAIChat: {
		`{"id":"c","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"b","type":"function",` +
			`"function":{"name":"bash","arguments":""}}]}}]}`,
		`{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"%"}}]}}]}`,
	},
	wire.OpenAIResponses: {
		`{"type":"response.output_item.added","sequence_number":0,"output_index":0,"item":{"type":"function_call",` +
			`"id":"fc","call_id":"b","name":"bash"}}`,
		`{"type":"response.function_call_arguments.delta","sequence_number":1,"output_index":0,"delta":"%"}`,
	},
}

// TestBounds: memory is bounded for any upstream. Beyond the limit a stream in the client's own
// format is forwarded, and a translation ends with an error.
func TestBounds(t *testing.T) {
	text := strings.Repeat("x", 1<<19)
	const pieces = translate.MaxBuffered>>19 + 8
	drive := func(t *testing.T, from wire.Format, limit int64, feed func([]byte) []byte) (sent int) {
		t.Helper()
		before := heap()
		event := func(data string) {
			for line := range strings.SplitSeq(data, "\n") {
				sent += len(feed([]byte("data: " + line + "\n\n")))
			}
		}
		event(long[from][0])
		for range pieces {
			event(strings.Replace(long[from][1], "%", text, 1))
		}
		if n := heap() - before; n > limit {
			t.Errorf("%d MiB are kept", n>>20)
		}
		return sent
	}
	for from := range long {
		t.Run(string(from), func(t *testing.T) {
			h := translate.NewBufferer(from, false)
			sent := drive(t, from, 24<<20, h.Feed)
			sent += len(h.Close(false))
			if sent < pieces*len(text) {
				t.Errorf("%d bytes of %d", sent, pieces*len(text))
			}
			runtime.KeepAlive(h)
		})
		for _, to := range translate.Formats() {
			if to == from || testing.Short() && to != translate.Formats()[0] {
				continue
			}
			t.Run(string(from)+" to "+string(to), func(t *testing.T) {
				s := translate.NewStream(from, to, &translate.Answering{Stream: true, Seed: seed, BufferCalls: true})
				drive(t, from, 3*translate.MaxBuffered, s.Feed)
				if !s.Ended() {
					t.Error("an answer without an end is kept")
				}
				runtime.KeepAlive(s)
			})
		}
	}
}

// manyCalls are requests with n calls at once, followed by their results.
var manyCalls = map[wire.Format]func(n int) string{
	wire.Anthropic: func(n int) string {
		return `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[` +
			listOf(n, `{"type":"tool_use","id":"call_%d","name":"Read","input":{}}`) + `]},{"role":"user","content":[` +
			listOf(n, `{"type":"tool_result","tool_use_id":"call_%d","content":"ok"}`) + `]}]}`
	},
	wire.OpenAIChat: func(n int) string {
		return `{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[` +
			listOf(n, `{"id":"call_%d","type":"function","function":{"name":"Read","arguments":"{}"}}`) + `]},` +
			listOf(n, `{"role":"tool","tool_call_id":"call_%d","content":"ok"}`) + `]}`
	},
	wire.OpenAIResponses: func(n int) string {
		return `{"model":"m","input":[{"role":"user","content":"hi"},` +
			listOf(n, `{"type":"function_call","call_id":"call_%d","name":"Read","arguments":"{}"}`) + `,` +
			listOf(n, `{"type":"function_call_output","call_id":"call_%d","output":"ok"}`) + `]}`
	},
	wire.Gemini: func(n int) string {
		return `{"contents":[{"role":"user","parts":[{"text":"hi"}]},{"role":"model","parts":[` +
			listOf(n, `{"functionCall":{"id":"call_%d","name":"Read","args":{}}}`) + `]},{"role":"user","parts":[` +
			listOf(n, `{"functionResponse":{"id":"call_%d","name":"Read","response":{"output":"ok"}}}`) + `]}]}`
	},
	wire.Interactions: func(n int) string {
		return `{"model":"m","input":[{"type":"user_input","content":"hi"},` +
			listOf(n, `{"type":"function_call","id":"call_%d","name":"Read","arguments":{}}`) + `,` +
			listOf(n, `{"type":"function_result","call_id":"call_%d","result":"ok"}`) + `]}`
	},
}

func listOf(n int, each string) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(each, i))
	}
	return strings.Join(all, ",")
}

// converted returns the memory in bytes for converting a request.
func converted(t *testing.T, from, to wire.Format, body string) uint64 {
	t.Helper()
	in := translate.Incoming{Body: []byte(body), Path: "/v1beta/models/gemini-3-pro:generateContent"}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := translate.Convert(from, to, in, translate.Options{})
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	return after.TotalAlloc - before.TotalAlloc
}

// manyPartsBytes is the limit for one entry. Gemini takes the most, because it requires results in
// the order of their calls.
const manyPartsBytes = 3500

// TestManyParts: the memory for an entry does not grow with the number of entries.
func TestManyParts(t *testing.T) {
	const n = 5000
	for from, body := range manyCalls {
		for _, to := range translate.Formats() {
			if to == from {
				continue
			}
			used := converted(t, from, to, body(n)) / (2 * n)
			t.Logf("%s to %s: %d bytes an entry", from, to, used)
			if used > manyPartsBytes {
				t.Errorf("%s to %s: %d bytes an entry", from, to, used)
			}
		}
	}
}

// TestManySealedThoughts: reading a thought does not visit the preceding thoughts again.
func TestManySealedThoughts(t *testing.T) {
	sealed := seal.Sealed{Format: wire.Anthropic, Text: "why", Data: "x"}.Seal()
	body := func(n int) string {
		return `{"contents":[{"role":"user","parts":[{"text":"hi"}]},{"role":"model","parts":[` +
			strings.Repeat(`{"text":"a","thoughtSignature":"`+sealed+`"},`, n) +
			`{"text":"b"}]},{"role":"user","parts":[{"text":"hi"}]}]}`
	}
	few, many := converted(t, wire.Gemini, wire.Anthropic, body(500)),
		converted(t, wire.Gemini, wire.Anthropic, body(5000))
	if many > 20*few {
		t.Errorf("%d bytes for ten times what takes %d", many, few)
	}
}

// TestManyCallsOfAnAnswer: each of many calls keeps its id and gets the arguments of its index.
func TestManyCallsOfAnAnswer(t *testing.T) {
	s := translate.NewStream(wire.OpenAIChat, wire.Anthropic, &translate.Answering{
		Stream: true, Seed: seed,
		BufferCalls: true,
	})
	chunk := func(calls string) string {
		return `data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[` + calls + "]}}]}\n\n"
	}
	var out strings.Builder
	for i := range wire.MaxCalls {
		out.Write(s.Feed([]byte(chunk(fmt.Sprintf(`{"index":%d,"id":"call_%d","function":{"name":"bash","arguments":""}}`,
			i, i/2)))))
	}
	for i := range wire.MaxCalls {
		out.Write(s.Feed([]byte(chunk(fmt.Sprintf(`{"index":%d,"function":{"arguments":"{\"n\":%d}"}}`, i, i)))))
	}
	out.Write(s.Feed([]byte("data: {\"choices\":[{\"index\":0,\"delta\":{}," +
		"\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n")))
	out.Write(s.Close(false))
	ids, inputs := map[string]bool{}, 0
	for line := range strings.Lines(out.String()) {
		if _, id, ok := strings.Cut(line, `"type":"tool_use","id":"`); ok {
			ids[id[:strings.IndexByte(id, '"')]] = true
		}
		if strings.Contains(line, fmt.Sprintf(`"partial_json":"{\"n\":%d}"`, inputs)) {
			inputs++
		}
	}
	if len(ids) != wire.MaxCalls || inputs != wire.MaxCalls {
		t.Errorf("%d ids and %d inputs of %d calls", len(ids), inputs, wire.MaxCalls)
	}
}
