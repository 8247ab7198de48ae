// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package seal_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/seal"
)

// Remove removes sealed reasoning from requests in every format, together with members that are invalid
// without it. SEAL stands for a seal.
func TestRemove(t *testing.T) {
	const user, result = `{"role":"user","content":"hi"}`,
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"r"}]}`
	const call = `{"type":"tool_use","id":"t1","name":"Read","input":{}}`
	const person, answer = `{"role":"user","parts":[{"text":"hi"}]}`,
		`{"role":"user","parts":[{"functionResponse":{"name":"Read","response":{}}}]}`
	for _, c := range []struct{ name, body, want string }{
		{
			"thinking in front of a call",
			`{"model":"m", "messages":[` + user +
				`, {"role":"assistant","content":[ {"type":"thinking","thinking":"t","signature":"SEAL"} , ` + call + ` ]}, ` +
				result + `] }`,
			`{"model":"m", "messages":[` + user + `, {"role":"assistant","content":[ ` + call + ` ]}, ` + result + `] }`,
		},
		{
			"redacted thinking behind text, and the API's own",
			`{"messages":[{"role":"assistant","content":[{"type":"text","text":"a"}, {"type":"redacted_thinking",` +
				`"data":"SEAL"}, {"type":"thinking","thinking":"t","signature":"EqAB"}]}]}`,
			`{"messages":[{"role":"assistant","content":[{"type":"text","text":"a"}, {"type":"thinking","thinking":"t",` +
				`"signature":"EqAB"}]}]}`,
		},
		{
			"a message of nothing else",
			`{"messages":[` + user + `,{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"SEAL"}]},` +
				user + `]}`,
			`{"messages":[` + user + `,` + user + `]}`,
		},
		{
			"a budget of thinking, in a run of calls",
			`{"thinking":{"type":"enabled","budget_tokens":2000},"messages":[` + user +
				`,{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"SEAL"},` + call + `]},` +
				result + `]}`,
			`{"thinking":{"type":"disabled"},"messages":[` + user + `,{"role":"assistant","content":[` + call + `]},` +
				result + `]}`,
		},
		{
			"a budget of thinking, behind a run of calls",
			`{"thinking":{"type":"enabled","budget_tokens":2000},"messages":[` + user +
				`,{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"SEAL"},` + call + `]},` + result +
				`,` + user + `]}`,
			`{"thinking":{"type":"enabled","budget_tokens":2000},"messages":[` + user + `,{"role":"assistant","content":[` +
				call + `]},` + result + `,` + user + `]}`,
		},
		{
			"reasoning items, and a reference to one",
			`{"input":[{"role":"user","content":"hi"},{"type":"reasoning","id":"rs_1","summary":[],` +
				`"encrypted_content":"SEAL"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},` +
				`{"type":"function_call_output","call_id":"c","output":"r"},{"type":"item_reference","id":"rs_1"},` +
				`{"type":"item_reference","id":"rs_2"},{"type":"reasoning","id":"rs_3","summary":[],"encrypted_content":"SEAL"}]}`,
			`{"input":[{"role":"user","content":"hi"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},` +
				`{"type":"function_call_output","call_id":"c","output":"r"},{"type":"item_reference","id":"rs_2"}]}`,
		},
		{
			"the signature of a call of Gemini's", `{"contents":[` + person +
				`,{"role":"model","parts":[{"text":"t","thought":true,"thoughtSignature":"SEAL"},{"functionCall":{"name":"Read",` +
				`"args":{}},"thoughtSignature":"SEAL"}]},` + answer + `]}`,
			`{"contents":[` + person +
				`,{"role":"model","parts":[{"functionCall":{"name":"Read","args":{}},` +
				`"thoughtSignature":"skip_thought_signature_validator"}]},` + answer + `]}`,
		},
		{
			"the signature of a text of Gemini's, in the other spelling", `{"contents":[` + person +
				`,{"role":"model","parts":[{"thought_signature":"SEAL","text":"a"},{"text":"","thoughtSignature":"SEAL"}]},` +
				person + `]}`,
			`{"contents":[` + person + `,{"role":"model","parts":[{"text":"a"}]},` + person + `]}`,
		},
		{
			"a count of Gemini's", `{"generateContentRequest":{"model":"m","contents":[` + person +
				`,{"role":"model","parts":[{"text":"t","thought":true,"thoughtSignature":"SEAL"}]},` + person + `]}}`,
			`{"generateContentRequest":{"model":"m","contents":[` + person + `,` + person + `]}}`,
		},
		{
			"a thought of the Interactions API",
			`{"input":[{"type":"user_input","content":[]},{"type":"thought","signature":"SEAL","summary":[]},` +
				`{"type":"function_call","id":"c","name":"f","arguments":{}}]}`,
			`{"input":[{"type":"user_input","content":[]},{"type":"function_call","id":"c","name":"f","arguments":{}}]}`,
		},
		{
			"details of reasoning in chat",
			`{"messages":[{"role":"assistant","content":"a","reasoning_content":"t",` +
				`"reasoning_details":[{"type":"reasoning.encrypted","data":"SEAL"}],"tool_calls":[]},{"role":"assistant",` +
				`"content":"a","reasoning_details":[{"type":"reasoning.text","text":"t"},{"type":"reasoning.encrypted",` +
				`"data":"SEAL"}]}]}`,
			`{"messages":[{"role":"assistant","content":"a","reasoning_content":"t","tool_calls":[]},{"role":"assistant",` +
				`"content":"a","reasoning_details":[{"type":"reasoning.text","text":"t"}]}]}`,
		},
		{
			"what only looks like one",
			`{"messages":[{"role":"user","content":"SEAL"},{"role":"assistant","content":[{"type":"tool_use","id":"t1",` +
				`"name":"Write","input":{"signature":"SEAL","data":"SEAL"}}]},{"role":"user","content":[{"type":"tool_result",` +
				`"tool_use_id":"t1","content":[{"type":"text","text":"SEAL"}]}]}]}`, "",
		},
		{
			"the API's own alone",
			`{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"EqAB"}]}]}`, "",
		},
		{"no JSON", `{"messages":[{"SEAL`, ""},
	} {
		if c.want == "" {
			c.want = c.body
		}
		for i, s := range []seal.Sealed{
			{Format: wire.Anthropic, Text: "so <it>", Data: "EqQB/+=="},
			{Format: wire.OpenAIResponses, ID: "rs_1", Data: "gAAA"},
		} {
			in := strings.ReplaceAll(c.body, "SEAL", s.Seal())
			got := string(seal.Remove([]byte(in)))
			if want := strings.ReplaceAll(c.want, "SEAL", s.Seal()); got != want {
				t.Errorf("%s, %d: got\n%s\nwant\n%s", c.name, i, got, want)
			}
			if again := string(seal.Remove([]byte(got))); again != got {
				t.Errorf("%s, %d: got %s the second time, want %s", c.name, i, again, got)
			}
			if json.Valid([]byte(in)) != json.Valid([]byte(got)) {
				t.Errorf("%s, %d: got no JSON: %s", c.name, i, got)
			}
		}
	}
}

// BenchmarkRemove measures the search of a long body without a seal.
func BenchmarkRemove(b *testing.B) {
	body := []byte(`{"messages":[{"role":"user","content":"` +
		strings.Repeat("The server reads every line of the given file, even where there are none. JSON, Java. ", 12_000) +
		`"}]}`)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		seal.Remove(body)
	}
}
