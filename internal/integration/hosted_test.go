// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

var updateHosted = flag.Bool("update-hosted", false, "write the requests to hosted providers to testdata/hosted")

// hostedAnswers are answers of hosted providers to a request with thinking and tools, with their own
// members, and the header that names the conversation to the provider.
var hostedAnswers = map[string]struct {
	events []string
	header string
	usage  wire.Usage
}{
	"deepseek": {
		events: chatAnswer("reasoning_content",
			`"usage":{"prompt_tokens":1277,"completion_tokens":5,"total_tokens":1282,"prompt_cache_hit_tokens":1232,`+
				`"prompt_cache_miss_tokens":45}`),
		usage: wire.Usage{Uncached: 45, Read: 1232, Output: 5, Reported: true},
	},
	"moonshot": {
		events: chatAnswer("reasoning_content",
			`"usage":{"prompt_tokens":1277,"completion_tokens":5,"total_tokens":1282,"cached_tokens":1232}`),
		usage: wire.Usage{Uncached: 45, Read: 1232, Output: 5, Reported: true},
	},
	"zai": {
		events: chatAnswer("reasoning_content",
			`"usage":{"prompt_tokens":1277,"completion_tokens":5,"total_tokens":1282,`+
				`"prompt_tokens_details":{"cached_tokens":1232}}`),
		usage: wire.Usage{Uncached: 45, Read: 1232, Output: 5, Reported: true},
	},
	"xai": {
		events: chatAnswer("reasoning_content",
			`"usage":{"prompt_tokens":1277,"completion_tokens":5,"total_tokens":1282,`+
				`"prompt_tokens_details":{"text_tokens":1277,"audio_tokens":0,"image_tokens":0,"cached_tokens":1232}}`),
		header: "X-Grok-Conv-Id", usage: wire.Usage{Uncached: 45, Read: 1232, Output: 5, Reported: true},
	},
	"mistral": {
		events: mistralAnswer,
		usage:  wire.Usage{Uncached: 45, Read: 1232, Output: 5, Reported: true},
	},
	"openrouter": {
		events: chatAnswer("reasoning",
			`"usage":{"prompt_tokens":1277,"completion_tokens":5,"total_tokens":1282,"cost":0.0021,`+
				`"prompt_tokens_details":{"cached_tokens":1232,"cache_write_tokens":40}}`),
		usage: wire.Usage{Uncached: 5, Write5m: 40, Read: 1232, Output: 5, Reported: true},
	},
	"groq": {
		events: chatAnswer("reasoning",
			`"usage":{"queue_time":0.01,"prompt_tokens":1277,"prompt_time":0.02,"completion_tokens":5,"total_tokens":1282,`+
				`"prompt_tokens_details":{"cached_tokens":1232}}`),
		usage: wire.Usage{Uncached: 45, Read: 1232, Output: 5, Reported: true},
	},
	"together": {
		events: chatAnswer("reasoning",
			`"usage":{"prompt_tokens":1277,"completion_tokens":5,"total_tokens":1282,"cached_tokens":1232}`),
		usage: wire.Usage{Uncached: 45, Read: 1232, Output: 5, Reported: true},
	},
	"fireworks": {
		events: chatAnswer("reasoning_content",
			`"usage":{"prompt_tokens":1277,"completion_tokens":5,"total_tokens":1282,`+
				`"prompt_tokens_details":{"cached_tokens":1232}}`),
		header: "X-Session-Affinity", usage: wire.Usage{Uncached: 45, Read: 1232, Output: 5, Reported: true},
	},
	"qwen": {events: messagesAnswer, usage: wire.Usage{
		Uncached: 5, Write5m: 40, Read: 1232, Output: 5,
		Reported: true,
	}},
	"minimax": {events: messagesAnswer, usage: wire.Usage{
		Uncached: 5, Write5m: 40, Read: 1232, Output: 5,
		Reported: true,
	}},
	"azure": {
		events: []string{
			`data: {"type":"response.created","response":{"id":"resp_1","status":"in_progress","output":[]}}`,
			`data: {"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[]}}`,
			`data: {"type":"response.reasoning_summary_text.delta","output_index":0,"item_id":"rs_1","summary_index":0,` +
				`"delta":"Hm."}`,
			`data: {"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1",` +
				`"summary":[{"type":"summary_text","text":"Hm."}]}}`,
			`data: {"type":"response.output_item.added","output_index":1,"item":{"type":"message","id":"msg_1",` +
				`"role":"assistant","content":[]}}`,
			`data: {"type":"response.output_text.delta","output_index":1,"item_id":"msg_1","content_index":0,"delta":"I look."}`,
			`data: {"type":"response.output_item.done","output_index":1,"item":{"type":"message","id":"msg_1",` +
				`"role":"assistant","content":[{"type":"output_text","text":"I look."}]}}`,
			`data: {"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","id":"fc_1",` +
				`"call_id":"call_1","name":"Read","arguments":""}}`,
			`data: {"type":"response.function_call_arguments.delta","output_index":2,"item_id":"fc_1",` +
				`"delta":"{\"path\":\"/a\"}"}`,
			`data: {"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","id":"fc_1",` +
				`"call_id":"call_1","name":"Read","arguments":"{\"path\":\"/a\"}"}}`,
			`data: {"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[],` +
				`"usage":{"input_tokens":1277,"input_tokens_details":{"cached_tokens":1232},"output_tokens":5,` +
				`"total_tokens":1282}}}`,
		},
		usage: wire.Usage{Uncached: 45, Read: 1232, Output: 5, Reported: true},
	},
}

// chatAnswer is a stream of chat completions with thinking, a text, a call, and a usage.
func chatAnswer(thinking, usage string) []string {
	chunk := func(delta, finish string) string {
		return `data: {"id":"c1","object":"chat.completion.chunk","created":1795600000,"model":"m","choices":[{"index":0,` +
			`"delta":` + delta + `,"finish_reason":` + finish + `}]}`
	}
	return []string{
		chunk(`{"role":"assistant","content":"","`+thinking+`":"Hm."}`, "null"),
		chunk(`{"content":"I look."}`, "null"),
		chunk(`{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"Read",`+
			`"arguments":"{\"path\":\"/a\"}"}}]}`, "null"),
		chunk(`{}`, `"tool_calls"`),
		`data: {"id":"c1","object":"chat.completion.chunk","created":1795600000,"model":"m","choices":[],` + usage + `}`,
		`data: [DONE]`,
	}
}

// mistralAnswer has its thinking in parts of the content, and its usage in the last chunk.
var mistralAnswer = []string{
	`data: {"id":"c1","object":"chat.completion.chunk","created":1795600000,"model":"m","choices":[{"index":0,` +
		`"delta":{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm."}]}]},` +
		`"finish_reason":null}]}`,
	`data: {"id":"c1","object":"chat.completion.chunk","created":1795600000,"model":"m","choices":[{"index":0,` +
		`"delta":{"content":"I look."},"finish_reason":null}]}`,
	`data: {"id":"c1","object":"chat.completion.chunk","created":1795600000,"model":"m","choices":[{"index":0,` +
		`"delta":{"content":"","tool_calls":[{"id":"call_1","function":{"name":"Read","arguments":"{\"path\":\"/a\"}"},` +
		`"index":0}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1277,"total_tokens":1282,` +
		`"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":1232}}}`,
	`data: [DONE]`,
}

var messagesAnswer = []string{
	"event: message_start\n" +
		`data: {"type":"message_start","message":{"id":"m1","type":"message","role":"assistant","model":"m","content":[],` +
		`"stop_reason":null,"usage":{"input_tokens":5,"cache_creation_input_tokens":40,"cache_read_input_tokens":1232,` +
		`"output_tokens":1}}}`,
	"event: content_block_start\n" +
		`data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
	"event: content_block_delta\n" +
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm."}}`,
	"event: content_block_stop\n" + `data: {"type":"content_block_stop","index":0}`,
	"event: content_block_start\n" +
		`data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`,
	"event: content_block_delta\n" +
		`data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"I look."}}`,
	"event: content_block_stop\n" + `data: {"type":"content_block_stop","index":1}`,
	"event: content_block_start\n" +
		`data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"call_1","name":"Read",` +
		`"input":{}}}`,
	"event: content_block_delta\n" +
		`data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta",` +
		`"partial_json":"{\"path\":\"/a\"}"}}`,
	"event: content_block_stop\n" + `data: {"type":"content_block_stop","index":2}`,
	"event: message_delta\n" +
		`data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":5}}`,
	"event: message_stop\n" + `data: {"type":"message_stop"}`,
}

// TestHostedProviders: a request of a Gemini client goes to the path of each provider's API with the
// members that the provider takes, and its answer comes back whole. testdata/hosted has the requests.
func TestHostedProviders(t *testing.T) {
	const body = `{"systemInstruction":{"parts":[{"text":"Be brief."}]},` +
		`"tools":[{"functionDeclarations":[{"name":"Read","parametersJsonSchema":{"type":"object",` +
		`"properties":{"path":{"type":"string"}}}}]}],` +
		`"generationConfig":{"maxOutputTokens":1000,"seed":7,"thinkingConfig":{"includeThoughts":true}},` +
		`"contents":[{"role":"user","parts":[{"text":"Look."}]},{"role":"model","parts":[{"functionCall":{"id":"t1",` +
		`"name":"Read","args":{"path":"/b"}}}]},{"role":"user","parts":[{"functionResponse":{"id":"t1","name":"Read",` +
		`"response":{"output":"x"}}}]}]}`
	for preset, c := range hostedAnswers {
		t.Run(preset, func(t *testing.T) {
			u := newUpstream(t, stream(c.events...))
			p := start(t, behind(u, preset))
			got := read(t, p.post("/v1beta/models/some-model:streamGenerateContent?alt=sse", body, "X-Goog-Api-Key", "anna"))
			turn := turnOf(wire.Gemini, true, got)
			if !turn.Done || turn.Thinking != "Hm." || turn.Text != "I look." || len(turn.Calls) != 1 ||
				turn.Calls[0].Arguments != `{"path":"/a"}` {
				t.Errorf("got %+v of\n%s", turn, got)
			}
			if turn.Usage != c.usage {
				t.Errorf("got usage %+v, want %+v", turn.Usage, c.usage)
			}
			sent := u.last()
			if id := sent.header.Get(c.header); c.header != "" && len(id) < 8 {
				t.Errorf("got the conversation's name %q in %s, want an ID", id, c.header)
			}
			golden(t, filepath.Join("testdata", "hosted", preset+".txt"),
				masked(fmt.Sprintf("%s %s\n%s\n", sent.method, sent.path, sent.body)))
		})
	}
}

// masked replaces the IDs of conversations, which differ between runs.
func masked(request string) string {
	for _, member := range []string{`"prompt_cache_key":"`, `"session_id":"`} {
		if before, after, ok := strings.Cut(request, member); ok {
			_, rest, _ := strings.Cut(after, `"`)
			request = before + member + "<id>\"" + rest
		}
	}
	return request
}

// golden compares a text with a file.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *updateHosted {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s (%v)", file, got, want, err)
	}
}

// TestHostedMessages: Messages stay Messages at providers that take them, at the path of their API,
// and a client that knows the path keeps it.
func TestHostedMessages(t *testing.T) {
	const body = `{"model":"m","max_tokens":9,"system":[{"type":"text","text":"Be brief.",` +
		`"cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"Hi"}]}`
	for preset, want := range map[string]string{
		"deepseek": "/anthropic/v1/messages", "moonshot": "/anthropic/v1/messages", "zai": "/api/anthropic/v1/messages",
		"qwen":    "/apps/anthropic/v1/messages",
		"minimax": "/anthropic/v1/messages", "openrouter": "/api/v1/messages", "fireworks": "/inference/v1/messages",
	} {
		u := newUpstream(t, answerMessage)
		p := start(t, behind(u, preset))
		for _, path := range []string{"/v1/messages", want} {
			read(t, p.post(path, body, "X-Api-Key", "anna"))
			if got := u.last(); got.path != want {
				t.Errorf("%s: %s was sent to %s, want %s", preset, path, got.path, want)
			} else if marked := strings.Contains(got.body, "cache_control"); marked != (preset == "qwen" ||
				preset == "minimax" || preset == "openrouter") {
				t.Errorf("%s: the marker is kept: %t in %s", preset, marked, got.body)
			}
		}
	}
}
