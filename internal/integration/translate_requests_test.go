// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// TestTranslatedRequests: what the formats disagree about, as it goes upstream.
func TestTranslatedRequests(t *testing.T) {
	t.Parallel()
	const (
		user  = `{"role":"user","content":"Hi"}`
		calls = `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f",` +
			`"arguments":"{}"}}]}`
	)
	for name, c := range map[string]struct {
		upstream, path, body string
		want                 string // what stands in what is sent, "" for a refusal
		not                  string
		said                 string // what stands in the answer, or in the header of what is left out
	}{
		"nothing but a system prompt": {
			upstream: "anthropic", path: "/v1/chat/completions",
			body: `{"model":"m","messages":[{"role":"system","content":"Be kind"}]}`,
			want: `"system":[{"type":"text","text":"Be kind"}],"messages":[{"role":"user","content":[{"type":"text",` +
				`"text":"Go on."}]}]`,
		},
		"nothing but a system prompt, to Gemini": {
			upstream: "{\n format gemini\n }", path: "/v1/chat/completions",
			body: `{"model":"m","messages":[{"role":"system","content":"Be kind"}]}`,
			want: `"contents":[{"role":"user","parts":[{"text":"Go on."}]}]`,
		},
		"nothing but a system prompt, to Responses": {
			upstream: "openai", path: "/v1beta/models/m:generateContent",
			body: `{"systemInstruction":{"parts":[{"text":"Be kind"}]},"contents":[]}`,
			want: `"input":[{"type":"message","role":"developer","content":[{"type":"input_text","text":"Be kind"}]}]`,
			not:  "instructions",
		},
		"nothing at all": {
			upstream: "anthropic", path: "/v1/chat/completions", body: `{"model":"m","messages":[]}`, said: "it has no messages",
		},
		"the model speaks first": {
			upstream: "anthropic", path: "/v1/chat/completions",
			body: `{"model":"m","messages":[{"role":"assistant","content":"Hello"},` + user + `]}`,
			want: `"messages":[{"role":"user","content":[{"type":"text","text":"Go on."}]},{"role":"assistant",` +
				`"content":[{"type":"text","text":"Hello"}]}`,
		},
		"the model speaks last": {
			upstream: "anthropic", path: "/v1/chat/completions", body: `{"model":"claude-opus-4-8","messages":[` + user +
				`,{"role":"assistant","content":"Hello"}]}`,
			want: `{"role":"assistant","content":[{"type":"text","text":"Hello"}]},{"role":"user","content":[{"type":"text",` +
				`"text":"Go on."}]}]`,
		},
		"the user says nothing": {
			upstream: "anthropic", path: "/v1/chat/completions", body: `{"model":"m","messages":[` + user +
				`,{"role":"assistant","content":"Hello"},{"role":"user","content":" \n"}]}`,
			want: `{"role":"user","content":[{"type":"text","text":"Go on."}]}]`,
		},
		"an answer that fills the cache only": {
			upstream: "mlx_lm", path: "/v1/messages", body: `{"model":"m","max_tokens":0,"messages":[` + user + `]}`,
			want: `"max_tokens":1,`, said: "max_tokens",
		},
		"and to OpenAI, which takes no less than 16": {
			upstream: "openai", path: "/v1/messages", body: `{"model":"m","max_tokens":0,"messages":[` + user + `]}`,
			want: `"max_output_tokens":16,`, said: "max_tokens",
		},
		"chunks of an answer": {
			upstream: "mlx_lm", path: "/v1beta/models/m:generateContent",
			body: `{"contents":[{"role":"user","parts":[{"text":"Hi"}]},{"role":"model","parts":[{"text":"Let me"}]},` +
				`{"role":"model","parts":[{"text":" look."}]},{"role":"model","parts":[{"functionCall":{"id":"a","name":"f",` +
				`"args":{}}}]},{"role":"model","parts":[{"functionCall":{"id":"b","name":"f","args":{}}}]},{"role":"user",` +
				`"parts":[{"functionResponse":{"id":"b","name":"f","response":{"output":"2"}}}]},{"role":"user",` +
				`"parts":[{"text":"Now"}]},{"role":"user","parts":[{"functionResponse":{"id":"a","name":"f",` +
				`"response":{"output":"1"}}}]}]}`,
			want: `{"role":"assistant","content":"Let me look.","tool_calls":[{"id":"a","type":"function",` +
				`"function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"f",` +
				`"arguments":"{}"}}]},{"role":"tool","tool_call_id":"b","content":"2"},{"role":"tool","tool_call_id":"a",` +
				`"content":"1"},{"role":"user","content":"Now"}]`,
		},
		"a result that comes late": {
			upstream: "mlx_lm", path: "/v1/responses",
			body: `{"model":"m","input":[` + user + `,{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},` +
				user + `,{"type":"function_call_output","call_id":"a","output":"1"}]}`,
			want: `{"role":"tool","tool_call_id":"a","content":"1"},{"role":"user","content":"Hi"}]`,
		},
		"one id in two turns": {
			upstream: "anthropic", path: "/v1/chat/completions",
			body: `{"model":"m","messages":[` + user + `,` + calls + `,{"role":"tool","tool_call_id":"a","content":"1"},` +
				calls + `,{"role":"tool","tool_call_id":"a","content":"2"}]}`,
			want: `{"type":"tool_use","id":"a_2","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result",` +
				`"tool_use_id":"a_2","content":"2"}]}]`,
		},
		"two results of one call": {
			upstream: "anthropic", path: "/v1/responses",
			body: `{"model":"m","input":[` + user +
				`,{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},{"type":"function_call_output",` +
				`"call_id":"a","output":"1"},{"type":"function_call_output","call_id":"a","output":"2"}]}`,
			want: `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"1"},{"type":"text",` +
				`"text":"2"}]}]`,
		},
		"answers of one turn in two messages": {
			upstream: "mlx_lm", path: "/v1/messages",
			body: `{"model":"m","max_tokens":9,"messages":[` + user +
				`,{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},{"role":"assistant",` +
				`"content":[{"type":"tool_use","id":"b","name":"f","input":{}}]},{"role":"user",` +
				`"content":[{"type":"tool_result","tool_use_id":"a","content":"1"},{"type":"tool_result","tool_use_id":"b",` +
				`"content":"2"}]}]}`,
			want: `{"id":"b","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a",` +
				`"content":"1"},{"role":"tool","tool_call_id":"b","content":"2"}]`,
		},
		"a deferred tool alone": {
			upstream: "mlx_lm", path: "/v1/messages",
			body: `{"model":"m","max_tokens":9,"tools":[{"type":"tool_search_tool_regex_20251119",` +
				`"name":"tool_search_tool_regex"},{"name":"late","defer_loading":true,"input_schema":{"type":"object"}}],` +
				`"messages":[` + user + `]}`,
			want: `"tools":[{"type":"function","function":{"name":"late"`, said: "tools[].type",
		},
		"a custom tool among those allowed": {
			upstream: "{\n format gemini\n }", path: "/v1/chat/completions",
			body: `{"model":"m","tools":[{"type":"custom","custom":{"name":"x"}},{"type":"function",` +
				`"function":{"name":"y"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required",` +
				`"tools":[{"type":"custom","custom":{"name":"x"}}]}},"messages":[` + user + `]}`,
			want: `"allowedFunctionNames":["x"]`,
		},
		"a tool that must be called": {
			upstream: "anthropic", path: "/v1/chat/completions",
			body: `{"model":"claude-opus-5-5","tools":[{"type":"function","function":{"name":"y"}}],"tool_choice":"required",` +
				`"messages":[` + user + `]}`,
			said: "tool_choice: this model cannot be made to call a tool",
		},
		"a call of the user's": {
			upstream: "mlx_lm", path: "/v1/messages",
			body: `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"tool_use","id":"a","name":"f",` +
				`"input":{}}]}]}`,
			said: "a call of a tool that is not the model's",
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusTeapot) })
			p := start(t, behind(u, c.upstream))
			res := p.post(c.path, c.body)
			got := read(t, res) + res.Header.Get("X-Llm-Cache-Dropped")
			if !strings.Contains(got, c.said) {
				t.Errorf("said %q", got)
			}
			if c.want == "" {
				if res.StatusCode != http.StatusBadRequest || len(u.requests()) != 0 {
					t.Errorf("status %d, %d requests", res.StatusCode, len(u.requests()))
				}
				return
			}
			if sent := u.last().body; !strings.Contains(sent, c.want) || c.not != "" && strings.Contains(sent, c.not) {
				t.Errorf("sent\n%s\nnot\n%s", sent, c.want)
			}
		})
	}
}

// TestEmptyAnswer: a client that fills the cache gets the empty answer that its
// API promises, whatever the upstream had to say.
func TestEmptyAnswer(t *testing.T) {
	t.Parallel()
	whole := `{"id":"c","object":"chat.completion","model":"q","choices":[{"index":0,"message":{"role":"assistant",` +
		`"content":"I","reasoning_content":"Hm","tool_calls":[{"id":"a","type":"function","function":{"name":"f",` +
		`"arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1277,"completion_tokens":1,` +
		`"prompt_tokens_details":{"cached_tokens":1234}}}`
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(whole))
	})
	p := start(t, behind(u, "mlx_lm"))
	got := gjson.Parse(read(t, p.post("/v1/messages",
		`{"model":"m","max_tokens":0,"messages":[{"role":"user","content":"Hi"}]}`)))
	if got.Get("content").Raw != "[]" || got.Get("stop_reason").Str != "max_tokens" ||
		got.Get("usage.cache_read_input_tokens").Int() != 1234 {
		t.Errorf("answer is %s", got.Raw)
	}
	if turn := turnOf(wire.Anthropic, true,
		read(t, p.post("/v1/messages", `{"model":"m","stream":true,"max_tokens":0,"messages":[{"role":"user",`+
			`"content":"Hi"}]}`))); !turn.Done || turn.Text != "" || len(turn.Calls) > 0 || turn.StopReason != "max_tokens" {
		t.Errorf("streamed answer is %+v", turn)
	}
}
