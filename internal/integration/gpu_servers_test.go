// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// batchingServers are servers for GPUs, with their answers to a request with thinking and tools, their
// name for the thinking of earlier turns, and their error for a prompt that is too long.
var batchingServers = map[string]struct {
	events            []string
	thinking, overrun string
	words             string // for clients of the Messages API
}{
	"vllm": {
		events: []string{
			`data: {"id":"chatcmpl-8f2c01","object":"chat.completion.chunk","created":1795600000,"model":"qwen",` +
				`"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],` +
				`"prompt_token_ids":null}`,
			`data: {"id":"chatcmpl-8f2c01","object":"chat.completion.chunk","created":1795600000,"model":"qwen",` +
				`"choices":[{"index":0,"delta":{"reasoning":"Hm."},"logprobs":null,"finish_reason":null,"token_ids":null}]}`,
			`data: {"id":"chatcmpl-8f2c01","object":"chat.completion.chunk","created":1795600000,"model":"qwen",` +
				`"choices":[{"index":0,"delta":{"content":"I look."},"logprobs":null,"finish_reason":null,"token_ids":null}]}`,
			`data: {"id":"chatcmpl-8f2c01","object":"chat.completion.chunk","created":1795600000,"model":"qwen",` +
				`"choices":[{"index":0,"delta":{"tool_calls":[{"id":"chatcmpl-tool-1","type":"function","index":0,` +
				`"function":{"name":"Read","arguments":""}}]},"logprobs":null,"finish_reason":null,"token_ids":null}]}`,
			`data: {"id":"chatcmpl-8f2c01","object":"chat.completion.chunk","created":1795600000,"model":"qwen",` +
				`"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":\"/a\"}"}}]},` +
				`"logprobs":null,"finish_reason":null,"token_ids":null}]}`,
			`data: {"id":"chatcmpl-8f2c01","object":"chat.completion.chunk","created":1795600000,"model":"qwen",` +
				`"choices":[{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"tool_calls","stop_reason":null,` +
				`"token_ids":null}]}`,
			`data: {"id":"chatcmpl-8f2c01","object":"chat.completion.chunk","created":1795600000,"model":"qwen","choices":[],` +
				`"usage":{"prompt_tokens":1277,"total_tokens":1282,"completion_tokens":5,` +
				`"prompt_tokens_details":{"cached_tokens":1232}}}`,
			`data: [DONE]`,
		},
		thinking: "reasoning",
		overrun: `{"error":{"message":"You passed 40001 input tokens and requested 0 output tokens. However, the model's ` +
			`context length is only 32768 tokens, resulting in a maximum input length of 32768 tokens. Please reduce the ` +
			`length of the input prompt. (parameter=input_tokens, value=40001)","type":"BadRequestError",` +
			`"param":"input_tokens","code":400}}`,
		words: "prompt is too long: 40001 tokens > 32768 maximum",
	},
	"sglang": {
		events: []string{
			`data: {"id":"3fd19a","object":"chat.completion.chunk","created":1795600000,"model":"qwen","choices":[{"index":0,` +
				`"delta":{"role":"assistant","content":"","reasoning_content":null,"tool_calls":null},"logprobs":null,` +
				`"finish_reason":null,"matched_stop":null}],"usage":null}`,
			`data: {"id":"3fd19a","object":"chat.completion.chunk","created":1795600000,"model":"qwen","choices":[{"index":0,` +
				`"delta":{"role":null,"content":null,"reasoning_content":"Hm.","tool_calls":null},"logprobs":null,` +
				`"finish_reason":null,"matched_stop":null}],"usage":null}`,
			`data: {"id":"3fd19a","object":"chat.completion.chunk","created":1795600000,"model":"qwen","choices":[{"index":0,` +
				`"delta":{"role":null,"content":"I look.","reasoning_content":null,"tool_calls":null},"logprobs":null,` +
				`"finish_reason":null,"matched_stop":null}],"usage":null}`,
			`data: {"id":"3fd19a","object":"chat.completion.chunk","created":1795600000,"model":"qwen","choices":[{"index":0,` +
				`"delta":{"role":null,"content":null,"reasoning_content":null,"tool_calls":[{"id":"call_1","index":0,` +
				`"type":"function","function":{"name":"Read","arguments":"{\"path\":\"/a\"}"}}]},"logprobs":null,` +
				`"finish_reason":null,"matched_stop":null}],"usage":null}`,
			`data: {"id":"3fd19a","object":"chat.completion.chunk","created":1795600000,"model":"qwen","choices":[{"index":0,` +
				`"delta":{"role":null,"content":null,"reasoning_content":null,"tool_calls":null},"logprobs":null,` +
				`"finish_reason":"tool_calls","matched_stop":null}],"usage":null}`,
			`data: {"id":"3fd19a","object":"chat.completion.chunk","created":1795600000,"model":"qwen","choices":[],` +
				`"usage":{"prompt_tokens":1277,"total_tokens":1282,"completion_tokens":5,` +
				`"prompt_tokens_details":{"cached_tokens":1232},"reasoning_tokens":0}}`,
			`data: [DONE]`,
		},
		thinking: "reasoning_content",
		overrun: `{"object":"error","message":"The input (410089 tokens) is longer than the model's context length ` +
			`(409600 tokens).","type":"BadRequestError","param":null,"code":400}`,
		words: "prompt is too long: 410089 tokens > 409600 maximum",
	},
}

// TestBatchingServers: translated requests and answers have the members of vLLM's and SGLang's sources.
func TestBatchingServers(t *testing.T) {
	t.Parallel()
	for preset, c := range batchingServers {
		t.Run(preset, func(t *testing.T) {
			u := newUpstream(t, stream(c.events...))
			p := start(t, behind(u, preset))
			const body = `{"model":"claude-sonnet-5-5","max_tokens":1000,"stream":true,"thinking":{"type":"disabled"},` +
				`"tools":[{"name":"Read","input_schema":{"type":"object"}}],` +
				`"messages":[{"role":"user","content":"Look."},{"role":"assistant","content":[{"type":"thinking",` +
				`"thinking":"Earlier.","signature":"s"},{"type":"tool_use","id":"t1","name":"Read","input":{"path":"/b"}}]},` +
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"x"}]}]}`
			got := read(t, p.post("/v1/messages", body, "X-Api-Key", "anna"))
			turn := turnOf(wire.Anthropic, true, got)
			if !turn.Done || turn.Thinking != "Hm." || turn.Text != "I look." || len(turn.Calls) != 1 ||
				turn.Calls[0].Arguments != `{"path":"/a"}` ||
				turn.Usage != (wire.Usage{Uncached: 45, Read: 1232, Output: 5, Reported: true}) {
				t.Errorf("got %+v of\n%s", turn, got)
			}
			sent := u.last()
			if sent.path != "/v1/chat/completions" {
				t.Errorf("sent to %s, want chat completions", sent.path)
			}
			for path, want := range map[string]string{
				"chat_template_kwargs.enable_thinking":   "false",
				"chat_template_kwargs.thinking":          "false",
				"chat_template_kwargs.preserve_thinking": "true",
				"reasoning_effort":                       "",
				"messages.1." + c.thinking:               `"Earlier."`,
				"metadata":                               "",
			} {
				if got := gjson.Get(sent.body, path).Raw; got != want {
					t.Errorf("%s: got %s, want %s in\n%s", path, got, want, sent.body)
				}
			}

			u = newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, c.overrun)
			})
			p.reload(behind(u, preset))
			res := p.post("/v1/messages", body)
			if got := gjson.Get(read(t, res), "error.message").Str; res.StatusCode != http.StatusBadRequest || got != c.words {
				t.Errorf("too long a prompt: got %d %q, want 400 %q", res.StatusCode, got, c.words)
			}
		})
	}
}

// TestCacheSalt: engines that hash prefixes with a salt share none between tenants, unless the
// overlay's group says so, and take none from clients.
func TestCacheSalt(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, answerChat)
	p := start(t, behind(u, "vllm"))
	salt := func(path, header, key string) string {
		body := `{"model":"m","max_tokens":10,"cache_salt":"anna's","messages":[{"role":"user","content":"Hi"}]}`
		read(t, p.post(path, body, header, key))
		return gjson.Get(u.last().body, "cache_salt").Str
	}
	anna := salt("/v1/chat/completions", "Authorization", "Bearer anna")
	if len(anna) < 43 || strings.Contains(anna, "anna") {
		t.Errorf("got the salt %q, want a secret of 256 bits", anna)
	}
	for who, want := range map[string]bool{"anna": true, "bert": false} {
		if got := salt("/v1/chat/completions", "Authorization", "Bearer "+who); (got == anna) != want {
			t.Errorf("%s: the salt is anna's: %t, want %t", who, got == anna, want)
		}
	}
	if got := salt("/v1/messages", "X-Api-Key", "bert"); got == anna || got == "" {
		t.Errorf("a translated request of another tenant: got %q, want a salt that is not %q", got, anna)
	}
	p.reload("llm_cache {\n upstream vllm\n overlay {\n group team\n}\n}\nreverse_proxy " + u.Listener.Addr().String())
	if a, b := salt("/v1/chat/completions", "Authorization", "Bearer anna"),
		salt("/v1/messages", "X-Api-Key", "bert"); a != b || a == "" || a == anna {
		t.Errorf("within a group: got %q and %q, want one of its own", a, b)
	}
	p.reload(behind(u, "vllm {\n body cache_salt null\n}"))
	if got := salt("/v1/chat/completions", "Authorization", "Bearer bert"); got != "anna's" {
		t.Errorf("taken away: got %q, want the client's own", got)
	}
}
