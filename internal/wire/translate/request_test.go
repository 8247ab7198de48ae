// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/seal"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// convert translates a feature's body, with a model for the upstream.
func convert(t *testing.T, from, to wire.Format, body, model string, o translate.Options) *translate.Outgoing {
	t.Helper()
	path, query := pathOf(from)
	if model != "" {
		o.Model = func(string) string { return model }
	}
	out, err := translate.Convert(from, to, translate.Incoming{Body: []byte(body), Path: path, Query: query}, o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const question = `{"role":"user","content":"Hi"}`

func TestRequests(t *testing.T) {
	sealed := seal.Sealed{Format: wire.OpenAIResponses, ID: "rs_1", Text: "Hm", Data: "gAAA"}
	redacted := seal.Sealed{Format: wire.Anthropic, Data: "cmVk", Redacted: true}
	for _, c := range []struct {
		name     string
		from, to wire.Format
		model    string
		o        translate.Options
		body     string
		want     []string // substrings of the body
		not      []string // not in the body
		dropped  []string
	}{{
		name: "the billing line is for Anthropic only", from: wire.Anthropic, to: wire.OpenAIChat,
		body: `{"model":"m","system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=1;"},{"type":"text",` +
			`"text":"Be kind"}],"messages":[` + question + `]}`,
		want: []string{`"messages":[{"role":"system","content":"Be kind"},{"role":"user","content":"Hi"}]`},
	}, {
		name: "reminders go into the result before them", from: wire.Anthropic, to: wire.OpenAIChat,
		body: `{"model":"m","messages":[` + question +
			`,{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},{"role":"user",` +
			`"content":[{"type":"tool_result","tool_use_id":"t","content":"one"}]},{"role":"system","content":"Hurry"}]}`,
		want: []string{`{"role":"tool","tool_call_id":"t","content":"one\n\n<system-reminder>\nHurry\n</system-reminder>"}]`},
	}, {
		name: "and so do those with a marker, which moves on with the next request", from: wire.Anthropic,
		to: wire.OpenAIChat,
		body: `{"model":"m","messages":[` + question +
			`,{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},{"role":"user",` +
			`"content":[{"type":"tool_result","tool_use_id":"t","content":"one"}]},{"role":"system",` +
			`"content":[{"type":"text","text":"Hurry","cache_control":{"type":"ephemeral"}}]}]}`,
		want: []string{`{"role":"tool","tool_call_id":"t","content":"one\n\n<system-reminder>\nHurry\n</system-reminder>"}]`},
	}, {
		name: "reasoning of another model's is not for a Claude model, whoever offers it", from: wire.OpenAIResponses,
		to: wire.Anthropic, model: "claude-opus-4-8",
		body: `{"model":"m","input":[{"role":"user","content":"Hi"},{"type":"reasoning","summary":[{"type":"summary_text",` +
			`"text":"hm"}],"encrypted_content":"gAAA"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},` +
			`{"type":"function_call_output","call_id":"c","output":"r"}]}`,
		want: []string{`{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]}`},
	}, {
		name: "what OpenAI's own tools have done are calls and results elsewhere", from: wire.OpenAIResponses,
		to: wire.Anthropic,
		body: `{"model":"m","input":[{"role":"user","content":"Hi"},{"type":"local_shell_call","id":"l1","call_id":"c1",` +
			`"status":"completed","action":{"type":"exec","command":["ls"]}},{"type":"local_shell_call_output","id":"c1",` +
			`"output":"files"},` +
			`{"type":"shell_call","call_id":"c2","action":{"commands":["ls"]}},{"type":"shell_call_output","call_id":"c2",` +
			`"output":[{"stdout":"f","stderr":""}]},` +
			`{"type":"computer_call","call_id":"c3","action":{"type":"screenshot"}},{"type":"computer_call_output",` +
			`"call_id":"c3","output":{"type":"computer_screenshot","image_url":"data:image/png;base64,AAAA"}},` +
			`{"type":"apply_patch_call","call_id":"c4","operation":{"type":"delete_file","path":"a"}},` +
			`{"type":"apply_patch_call_output","call_id":"c4","output":"done"},{"type":"web_search_call","id":"w"}]}`,
		want: []string{
			`{"type":"tool_use","id":"c1","name":"local_shell","input":{"type":"exec","command":["ls"]}}`,
			`{"type":"tool_result","tool_use_id":"c1","content":"files"}`,
			`{"type":"tool_use","id":"c2","name":"shell","input":{"commands":["ls"]}}`,
			`"tool_use_id":"c2","content":"{\"stdout\":\"f\",\"stderr\":\"\"}"`,
			`"tool_use_id":"c3","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]`,
			`{"type":"tool_use","id":"c4","name":"apply_patch","input":{"type":"delete_file","path":"a"}}`,
		},
	}, {
		name: "a developer message in place for OpenAI's own API", from: wire.Anthropic, to: wire.OpenAIResponses,
		model: "gpt-5.2", o: translate.Options{Official: true},
		body: `{"model":"m","messages":[` + question + `,{"role":"system","content":"Hurry"}]}`,
		want: []string{`{"type":"message","role":"developer","content":[{"type":"input_text","text":"Hurry"}]}]`},
	}, {
		name: "a system message in place for a Claude model that takes it", from: wire.OpenAIChat, to: wire.Anthropic,
		model: "claude-opus-5-5", o: translate.Options{Official: true},
		body: `{"model":"m","messages":[` + question + `,{"role":"developer","content":"Hurry"}]}`,
		want: []string{`{"role":"user","content":[{"type":"text","text":"Hi"}]},{"role":"system",` +
			`"content":[{"type":"text","text":"Hurry"}]}]`},
	}, {
		name: "and folded for one that does not", from: wire.OpenAIChat, to: wire.Anthropic, model: "claude-sonnet-4-5",
		o:    translate.Options{Official: true},
		body: `{"model":"m","messages":[` + question + `,{"role":"developer","content":"Hurry"}]}`,
		want: []string{`[{"type":"text","text":"Hi"},{"type":"text","text":"<system-reminder>\nHurry\n</system-reminder>"}]`},
	}, {
		name: "results of one turn are one message, before the text", from: wire.OpenAIChat, to: wire.Anthropic,
		body: `{"model":"m","messages":[` + question +
			`,{"role":"assistant","content":null,"tool_calls":[{"id":"x.1","type":"function","function":{"name":"f",` +
			`"arguments":"{\"b\":1.0,\"a\":\"\\u00e9\"}"}},{"id":"y","type":"function","function":{"name":"f",` +
			`"arguments":"{\"cut"}}]},{"role":"tool","tool_call_id":"x.1","content":"1"},{"role":"tool","tool_call_id":"y",` +
			`"content":"2"},{"role":"user","content":"Go"}]}`,
		want: []string{
			`"input":{"b":1.0,"a":"\u00e9"}`, `"input":{"arguments":"{\"cut"}`,
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_4598734b4461ecebd8672ce4","content":"1"},` +
				`{"type":"tool_result","tool_use_id":"y","content":"2"},{"type":"text","text":"Go"}]}]`,
		},
		not: []string{"x.1"},
	}, {
		name: "an image in a result follows as the user's", from: wire.Anthropic, to: wire.OpenAIChat,
		body: requestFeatureBody("image in a result", wire.Anthropic),
		want: []string{`"content":"The content of this result follows."},{"role":"user","content":[{"type":"image_url",` +
			`"image_url":{"url":"data:image/png;base64,`},
	}, {
		name: "what follows is the content of its own result alone", from: wire.Anthropic, to: wire.OpenAIChat,
		body: `{"model":"m","messages":[` + question +
			`,{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"b",` +
			`"name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a",` +
			`"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]},` +
			`{"type":"tool_result","tool_use_id":"b"}]}]}`,
		want: []string{`"tool_call_id":"a","content":"The content of this result follows."},{"role":"tool",` +
			`"tool_call_id":"b","content":""},{"role":"user",`},
	}, {
		name: "stop sequences of white space are not for Anthropic", from: wire.OpenAIChat, to: wire.Anthropic,
		o:    translate.Options{Official: true},
		body: `{"model":"m","stop":["\n\n","END",""],"messages":[` + question + `]}`,
		want: []string{`"stop_sequences":["END"]`},
	}, {
		name: "nor are they its only ones", from: wire.OpenAIChat, to: wire.Anthropic, o: translate.Options{Official: true},
		body: `{"model":"m","stop":"\n","messages":[` + question + `]}`,
		not:  []string{"stop"},
	}, {
		name: "the objects of an answer are closed, which Anthropic demands", from: wire.Gemini, to: wire.Anthropic,
		o: translate.Options{Official: true},
		body: `{"contents":[{"parts":[{"text":"Hi"}]}],"generationConfig":{"responseMimeType":"application/json",` +
			`"responseSchema":{"type":"OBJECT","properties":{"type":{"type":"STRING"},"list":{"type":"ARRAY",` +
			`"items":{"type":"OBJECT","nullable":true,"properties":{}}}},"required":["type"]}}}`,
		want: []string{`"schema":{"type":"object","properties":{"type":{"type":"string"},"list":{"type":"array",` +
			`"items":{"type":["object","null"],"properties":{},"additionalProperties":false}}},"required":["type"],` +
			`"additionalProperties":false}`},
	}, {
		name: "also where a schema says otherwise", from: wire.OpenAIChat, to: wire.Anthropic,
		o: translate.Options{Official: true},
		body: `{"model":"m","response_format":{"type":"json_schema","json_schema":{"name":"n",` +
			`"schema":{"type":"object", "properties":{"additionalProperties":{"$ref":"#/$defs/a"}},` +
			`"additionalProperties":true,"$defs":{"a":{"anyOf":[{"type":"object"},{"const":1.0}]}}}}},"messages":[` + question +
			`]}`,
		want: []string{`"schema":{"type":"object","properties":{"additionalProperties":{"$ref":"#/$defs/a"}},` +
			`"$defs":{"a":{"anyOf":[{"type":"object","additionalProperties":false},{"const":1.0}]}},` +
			`"additionalProperties":false}`},
		dropped: []string{"response_format.schema.additionalProperties"},
	}, {
		name: "what Anthropic does not take in a schema of an answer is left out", from: wire.OpenAIChat, to: wire.Anthropic,
		o: translate.Options{Official: true},
		body: `{"model":"m","response_format":{"type":"json_schema","json_schema":{"name":"n",` +
			`"schema":{"type":"object","properties":{"minimum":{"type":"integer","minimum":1,"maximum":9},` +
			`"list":{"type":"array","minItems":1,"maxItems":3,"items":{"oneOf":[{"type":"string","maxLength":5},` +
			`{"type":"null"}]}}},"additionalProperties":false}}},"messages":[` + question + `]}`,
		want: []string{`"schema":{"type":"object","properties":{"minimum":{"type":"integer"},"list":{"type":"array",` +
			`"minItems":1,"items":{"anyOf":[{"type":"string"},{"type":"null"}]}}},"additionalProperties":false}`},
		dropped: []string{
			"response_format.schema.maxItems", "response_format.schema.maxLength",
			"response_format.schema.maximum", "response_format.schema.minimum",
		},
	}, {
		name: "a tool that a message adds is there, and one that it removes is not", from: wire.Anthropic,
		to: wire.OpenAIChat,
		body: `{"model":"m","messages":[` + question +
			`,{"role":"system","content":[{"type":"tool_addition","tool":{"type":"tool_reference","name":"late"}},` +
			`{"type":"tool_removal","tool":{"type":"tool_reference","name":"gone"}}]}],"tools":[{"name":"gone",` +
			`"input_schema":{"type":"object"}},{"name":"late","input_schema":{"type":"object"},"defer_loading":true},` +
			`{"name":"never","input_schema":{"type":"object"},"defer_loading":true}]}`,
		want: []string{
			`"tools":[{"type":"function","function":{"name":"late",`, "there is a tool late",
			"there is no tool gone",
		},
		not: []string{`"name":"gone"`, `"name":"never"`},
	}, {
		name: "a result that is an error holds no image for Anthropic", from: wire.Interactions, to: wire.Anthropic,
		body: `{"model":"m","input":[{"type":"user_input","content":[{"type":"text","text":"Hi"}]},` +
			`{"type":"function_call","id":"c","name":"f","arguments":{}},{"type":"function_result","call_id":"c","name":"f",` +
			`"is_error":true,"result":[{"type":"image","mime_type":"image/png","data":"iVBORw0KGgo="}]}]}`,
		want: []string{`"tool_use_id":"c","content":[{"type":"text","text":"The tool has failed:"},{"type":"image",`},
		not:  []string{"is_error"},
	}, {
		name: "strict mode of OpenAI's own is for what it takes in it", from: wire.Anthropic, to: wire.OpenAIResponses,
		model: "gpt-5.2", o: translate.Options{Official: true},
		body: `{"model":"m","output_config":{"format":{"type":"json_schema","schema":{"type":"object",` +
			`"properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a"],"additionalProperties":false}}},` +
			`"tools":[{"name":"f","strict":true,"input_schema":{"type":"object","properties":{"a":{"anyOf":[{"type":"object",` +
			`"properties":{"b":{}},"additionalProperties":false}]}},"required":["a"],"additionalProperties":false}},` +
			`{"name":"g","strict":true,"input_schema":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],` +
			`"additionalProperties":false}}],"messages":[` + question + `]}`,
		want: []string{
			`"additionalProperties":false}}},"store"`,
			`"name":"f","parameters":{"type":"object","properties":{"a":{"anyOf":[{"type":"object","properties":{"b":{}},` +
				`"additionalProperties":false}]}},"required":["a"],"additionalProperties":false},"strict":false}`,
			`"additionalProperties":false},"strict":true}]`,
		},
		dropped: []string{"tools[].strict"},
	}, {
		name: "models that do not reason have nothing to encrypt", from: wire.Anthropic, to: wire.OpenAIResponses,
		model: "gpt-4.1-mini", o: translate.Options{Official: true},
		body: `{"model":"m","messages":[` + question + `]}`,
		want: []string{`"store":false,"input":`},
	}, {
		name: "a model of another name may", from: wire.Anthropic, to: wire.OpenAIResponses, model: "ours",
		o:    translate.Options{Official: true},
		body: `{"model":"m","messages":[` + question + `]}`,
		want: []string{`"store":false,"include":["reasoning.encrypted_content"],"input":`},
	}, {
		name: "a budget of null is none", from: wire.Gemini, to: wire.Anthropic, model: "claude-opus-5",
		o: translate.Options{Official: true},
		body: `{"contents":[{"parts":[{"text":"Hi"}]}],"generationConfig":{"thinkingConfig":{"thinkingBudget":null,` +
			`"includeThoughts":true}}}`,
		not: []string{`"thinking"`},
	}, {
		name: "numbers that Gemini would round stand in a text", from: wire.Anthropic, to: wire.Gemini,
		model: "gemini-3.1-pro",
		body: `{"model":"m","messages":[` + question +
			`,{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{}},{"type":"tool_use","id":"2",` +
			`"name":"f","input":{}},{"type":"tool_use","id":"3","name":"f","input":{}}]},{"role":"user",` +
			`"content":[{"type":"tool_result","tool_use_id":"1","content":"{\"id\":[12345678901234567]}"},` +
			`{"type":"tool_result","tool_use_id":"2","content":"{\"n\":1e400}"},{"type":"tool_result","tool_use_id":"3",` +
			`"content":"{\"12345678901234567\":-1234567.890123,\"e\":true}"}]}]}`,
		want: []string{
			`"response":{"output":"{\"id\":[12345678901234567]}"}`, `"response":{"output":"{\"n\":1e400}"}`,
			`"response":{"12345678901234567":-1234567.890123,"e":true}`,
		},
	}, {
		name: "what stands alone needs no brackets at Gemini", from: wire.Gemini, to: wire.OpenAIChat,
		body: `{"system_instruction":{"parts":{"text":"Be kind"}},"contents":{"parts":{"text":"Hi"}},` +
			`"tools":{"function_declarations":{"name":"f"}}}`,
		want: []string{`[{"role":"system","content":"Be kind"},{"role":"user","content":"Hi"}]`, `"name":"f"`},
	}, {
		name: "a schema has properties, which OpenAI demands", from: wire.Anthropic, to: wire.OpenAIResponses,
		body: `{"model":"m","tools":[{"name":"f","input_schema":{"type":"object"}},{"name":"g",` +
			`"input_schema":{"additionalProperties":false}},{"name":"h","input_schema":{"type":"object",` +
			`"properties":{"a":{}}}},{"name":"i"}],"messages":[` + question + `]}`,
		want: []string{
			`"f","parameters":{"type":"object","properties":{}}`,
			`"g","parameters":{"type":"object","additionalProperties":false,"properties":{}}`,
			`"h","parameters":{"type":"object","properties":{"a":{}}}`, `"i","parameters":{"type":"object","properties":{}}`,
		},
	}, {
		name: "results in the order of the calls, one for each", from: wire.Anthropic, to: wire.Gemini,
		model: "gemini-3.1-pro",
		body: `{"model":"m","messages":[` + question +
			`,{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{}},{"type":"tool_use","id":"2",` +
			`"name":"g","input":{}},{"type":"tool_use","id":"3","name":"h","input":{}}]},{"role":"user",` +
			`"content":[{"type":"tool_result","tool_use_id":"3","content":"c"},{"type":"tool_result","tool_use_id":"1",` +
			`"content":[{"type":"text","text":"{\"k\": 1.0}"}]}]}]}`,
		want: []string{
			`{"functionCall":{"id":"1","name":"f","args":{}},"thoughtSignature":"skip_thought_signature_validator"},` +
				`{"functionCall":{"id":"2","name":"g","args":{}}}`,
			`[{"functionResponse":{"id":"1","name":"f","response":{"k": 1.0}}},{"functionResponse":{"id":"2","name":"g",` +
				`"response":{"output":""}}},{"functionResponse":{"id":"3","name":"h","response":{"output":"c"}}}]`,
		},
	}, {
		name: "Gemini's signature comes back out of the id", from: wire.Anthropic, to: wire.Gemini, model: "gemini-3.1-pro",
		body: `{"model":"m","messages":[` + question + `,{"role":"assistant","content":[{"type":"tool_use","id":"` +
			seal.ID("c1", "c2ln") +
			`","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"` +
			seal.ID("c1", "c2ln") + `","content":"x"}]}]}`,
		want: []string{
			`{"functionCall":{"id":"c1","name":"f","args":{}},"thoughtSignature":"c2ln"}`,
			`"functionResponse":{"id":"c1"`,
		},
	}, {
		name: "older Gemini models sign nothing", from: wire.Anthropic, to: wire.Gemini, model: "gemini-2.5-pro",
		body: `{"model":"m","messages":[` + question +
			`,{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{}}]}]}`,
		not: []string{"thoughtSignature"},
	}, {
		name: "OpenAI's reasoning comes back out of a signature", from: wire.Anthropic, to: wire.OpenAIResponses,
		model: "gpt-5.2", o: translate.Options{Official: true},
		body: `{"model":"m","messages":[` + question +
			`,{"role":"assistant","content":[{"type":"thinking","thinking":"Hm","signature":"` + sealed.Seal() +
			`"},{"type":"text","text":"Yes"}]},` + question + `]}`,
		want: []string{`{"type":"reasoning","summary":[{"type":"summary_text","text":"Hm"}],"encrypted_content":"gAAA"},` +
			`{"type":"message","role":"assistant"`},
	}, {
		name: "and out of a thoughtSignature, with the text that the client lost", from: wire.Gemini,
		to: wire.OpenAIResponses, model: "gpt-5.2", o: translate.Options{Official: true},
		body: `{"contents":[{"role":"user","parts":[{"text":"Hi"}]},{"role":"model","parts":[{"functionCall":{"name":"f",` +
			`"args":{}},"thoughtSignature":"` + sealed.Seal() +
			`"}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"x"}}}]}]}`,
		want: []string{`{"type":"reasoning","summary":[{"type":"summary_text","text":"Hm"}],"encrypted_content":"gAAA"},` +
			`{"type":"function_call","call_id":"call_1_0"`},
	}, {
		name: "Claude's redacted thinking comes back out of encrypted_content", from: wire.OpenAIResponses,
		to: wire.Anthropic, model: "claude-opus-5-5", o: translate.Options{Official: true},
		body: `{"model":"m","input":[{"role":"user","content":"Hi"},{"type":"reasoning","summary":[],"encrypted_content":"` +
			redacted.Seal() +
			`"},{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},{"type":"function_call_output",` +
			`"call_id":"1","output":"x"}]}`,
		want: []string{`{"type":"redacted_thinking","data":"cmVk"},{"type":"tool_use","id":"1"`},
	}, {
		name: "reasoning made elsewhere is no use to a provider", from: wire.OpenAIResponses, to: wire.Anthropic,
		model: "claude-opus-5-5", o: translate.Options{Official: true},
		body: `{"model":"m","input":[{"role":"user","content":"Hi"},{"type":"reasoning","summary":[],` +
			`"encrypted_content":"gAAA"},{"type":"message","role":"assistant","content":[{"type":"output_text",` +
			`"text":"Yes"}]},{"role":"user","content":"Go"}]}`,
		not:     []string{"gAAA", "thinking"},
		dropped: []string{"input[].encrypted_content"},
	}, {
		name: "but to a local engine, as text", from: wire.Anthropic, to: wire.OpenAIChat,
		body: `{"model":"m","messages":[` + question +
			`,{"role":"assistant","content":[{"type":"thinking","thinking":"Hm","signature":"c2ln"},{"type":"text",` +
			`"text":"Yes"}]},` + question + `]}`,
		want: []string{`{"role":"assistant","reasoning_content":"Hm","content":"Yes"}`},
		not:  []string{"c2ln"},
	}, {
		name: "a budget for a model that takes one", from: wire.OpenAIChat, to: wire.Anthropic, model: "claude-sonnet-4-5",
		o:       translate.Options{Official: true},
		body:    `{"model":"m","reasoning_effort":"medium","temperature":0.2,"messages":[` + question + `]}`,
		want:    []string{`"max_tokens":16384`, `"thinking":{"type":"enabled","budget_tokens":8192}`},
		not:     []string{"temperature"},
		dropped: []string{"temperature"},
	}, {
		name: "no budget where thinking was not sent back", from: wire.OpenAIChat, to: wire.Anthropic,
		model: "claude-sonnet-4-5", o: translate.Options{Official: true},
		body: `{"model":"m","reasoning_effort":"medium","messages":[` + question +
			`,{"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"f",` +
			`"arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"x"}]}`,
		not:     []string{`"thinking"`},
		dropped: []string{"reasoning_effort"},
	}, {
		name: "an effort for a model that decides itself", from: wire.OpenAIResponses, to: wire.Anthropic,
		model: "claude-opus-4-8", o: translate.Options{Official: true},
		body: `{"model":"m","reasoning":{"effort":"xhigh","summary":"auto"},"temperature":0.2,"input":"Hi"}`,
		want: []string{
			`"max_tokens":32768`,
			`"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"xhigh"}`,
		},
		dropped: []string{"temperature"},
	}, {
		name: "a temperature over Anthropic's most", from: wire.OpenAIChat, to: wire.Anthropic, model: "claude-sonnet-4-5",
		body:    `{"model":"m","temperature":1.7,"messages":[` + question + `]}`,
		want:    []string{`"temperature":1,`},
		dropped: []string{"temperature"},
	}, {
		name: "Anthropic's most in other digits", from: wire.OpenAIChat, to: wire.Anthropic, model: "claude-sonnet-4-5",
		body: `{"model":"m","temperature":1.00,"messages":[` + question + `]}`,
		want: []string{`"temperature":1.00,`},
	}, {
		name: "a model of OpenAI that reasons takes no temperature", from: wire.Anthropic, to: wire.OpenAIChat,
		model: "gpt-5.2", o: translate.Options{Official: true},
		body:    `{"model":"m","max_tokens":5,"temperature":0.5,"messages":[` + question + `]}`,
		want:    []string{`"max_completion_tokens":5`},
		dropped: []string{"temperature"},
	}, {
		name: "nor a stop sequence, nor efforts of later models", from: wire.Anthropic, to: wire.OpenAIChat, model: "gpt-5",
		o:    translate.Options{Official: true},
		body: `{"model":"m","stop_sequences":["X"],"output_config":{"effort":"max"},"messages":[` + question + `]}`,
		want: []string{`"reasoning_effort":"high"`},
		not:  []string{`"stop"`},
	}, {
		name: "local engines know max_tokens", from: wire.OpenAIResponses, to: wire.OpenAIChat,
		body: `{"model":"m","max_output_tokens":5,"input":"Hi"}`,
		want: []string{`"max_tokens":5`},
	}, {
		name: "usage is always asked for in a stream", from: wire.Anthropic, to: wire.OpenAIChat,
		body: `{"model":"m","stream":true,"messages":[` + question + `]}`,
		want: []string{`"stream":true,"stream_options":{"include_usage":true}`},
	}, {
		name: "unset strictness would be strict", from: wire.OpenAIChat, to: wire.OpenAIResponses,
		body: requestFeatureBody("tools", wire.OpenAIChat),
		want: []string{`"strict":false`, `"store":false,"include":["reasoning.encrypted_content"]`},
	}, {
		name: "markers for gateways to Claude", from: wire.Anthropic, to: wire.OpenAIChat,
		o:    translate.Options{CacheControl: true},
		body: requestFeatureBody("marker of the cache", wire.Anthropic),
		want: []string{`"content":[{"type":"text","text":"Hi","cache_control":{"type":"ephemeral"}}]`},
	}, {
		name: "breakpoints for OpenAI's recent models", from: wire.Anthropic, to: wire.OpenAIResponses, model: "gpt-6",
		o:    translate.Options{Official: true, Breakpoints: true, CacheKey: "k"},
		body: requestFeatureBody("marker of the cache", wire.Anthropic),
		want: []string{`"text":"Hi","prompt_cache_breakpoint":{"mode":"explicit"}}`, `"prompt_cache_key":"k"`},
	}, {
		name: "of too many markers the last, the long lifetime in front", from: wire.OpenAIChat, to: wire.Anthropic,
		model: "claude-opus-4-8",
		body: `{"model":"m","messages":[{"role":"user","content":[` +
			strings.Repeat(`{"type":"text","text":"a","cache_control":{"type":"ephemeral","ttl":"1h"}},`, 3) +
			strings.Repeat(`{"type":"text","text":"b","cache_control":{"type":"ephemeral"}},`, 2) +
			`{"type":"text","text":"c","cache_control":{"type":"ephemeral","ttl":"1h"}}]}]}`,
		want: []string{
			`[{"type":"text","text":"a"},{"type":"text","text":"a"},{"type":"text","text":"a",` +
				`"cache_control":{"type":"ephemeral","ttl":"1h"}},{"type":"text","text":"b","cache_control":{"type":"ephemeral"}}`,
			`{"type":"text","text":"c","cache_control":{"type":"ephemeral"}}]`,
		},
		dropped: []string{"messages[].content[].cache_control", "messages[].content[].cache_control.ttl"},
	}, {
		name: "Anthropic marks by itself for clients without markers", from: wire.OpenAIChat, to: wire.Anthropic,
		model: "claude-opus-5-5", o: translate.Options{Official: true},
		body: requestFeatureBody("tools", wire.OpenAIChat),
		want: []string{`"cache_control":{"type":"ephemeral"}`},
	}, {
		name: "a prompt that is only to be cached", from: wire.OpenAIResponses, to: wire.Anthropic, model: "claude-opus-5-5",
		o:       translate.Options{Official: true},
		body:    `{"model":"m","prompt_cache_options":{"prewarm":true,"ttl":"12h"},"max_output_tokens":900,"input":"Hi"}`,
		want:    []string{`"max_tokens":1`},
		not:     []string{`"max_tokens":1,"max_tokens"`, "900"},
		dropped: []string{"max_output_tokens", "prompt_cache_options.ttl"},
	}, {
		name: "not for a single question", from: wire.OpenAIChat, to: wire.Anthropic, model: "claude-opus-5-5",
		o:    translate.Options{Official: true},
		body: requestFeatureBody("text", wire.OpenAIChat),
		not:  []string{"cache_control"},
	}, {
		name: "only the tools allowed", from: wire.OpenAIChat, to: wire.Anthropic,
		body: `{"model":"m","tools":[` + chatTool +
			`,{"type":"function","function":{"name":"g"}},{"type":"function","function":{"name":"h"}}],` +
			`"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function",` +
			`"function":{"name":"g"}},{"type":"function","function":{"name":"h"}}]}},"messages":[` + question + `]}`,
		want: []string{`"tools":[{"name":"g","input_schema":{"type":"object","properties":{}}},{"name":"h"`},
		not:  []string{`"name":"f"`},
	}, {
		name: "and by their names where the format has a word for it", from: wire.OpenAIChat, to: wire.Gemini,
		body: `{"model":"m","tools":[` + chatTool +
			`,{"type":"function","function":{"name":"g"}}],"tool_choice":{"type":"allowed_tools",` +
			`"allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"g"}}]}},"messages":[` +
			question + `]}`,
		want: []string{`"name":"f"`, `{"mode":"ANY","allowedFunctionNames":["g"]}`},
	}, {
		name: "deferred tools come last, as results refer to them", from: wire.Anthropic, to: wire.OpenAIChat,
		body: clientBodies[0].body,
		want: []string{
			`"name":"WebFetch","parameters":{"type":"object","properties":{}}}}],"messages"`,
			`"content":"Loaded tool: WebFetch`,
		},
		not: []string{"DeferredToolPlaceholder", "thinking"},
	}, {
		name: "Gemini's schemas", from: wire.Gemini, to: wire.Anthropic,
		body: clientBodies[4].body,
		want: []string{`"input_schema":{"type":"object","properties":{"path":{"type":["string","null"],"minLength":1},` +
			`"type":{"type":"string","enum":["STRING"]}}}`, `"content":"{\"stdout\":\"b\",\"code\":0}"`},
	}, {
		name: "a custom tool and its call", from: wire.OpenAIResponses, to: wire.Anthropic,
		body: clientBodies[2].body,
		want: []string{`"name":"shell__exec","description":"Runs a program\n\nThe input must match this grammar:\nstart: ` +
			`/.+/"`, `"name":"shell__exec","input":{"input":"const x = \"1\"\n"}`},
	}, {
		name: "a plain text document", from: wire.Gemini, to: wire.OpenAIChat,
		body: `{"contents":[{"parts":[{"inlineData":{"mimeType":"text/plain","data":"` +
			base64.StdEncoding.EncodeToString([]byte("a\n\"b\"")) + `"}}]}]}`,
		want: []string{`"content":"a\n\"b\""`},
	}} {
		t.Run(c.name, func(t *testing.T) {
			out := convert(t, c.from, c.to, c.body, c.model, c.o)
			for _, s := range c.want {
				if !strings.Contains(string(out.Body), s) {
					t.Errorf("no %s\nin %s", s, out.Body)
				}
			}
			for _, s := range c.not {
				if strings.Contains(string(out.Body), s) {
					t.Errorf("there is %s\nin %s", s, out.Body)
				}
			}
			for _, s := range c.dropped {
				if !slices.Contains(out.Dropped, s) {
					t.Errorf("%s is not listed: %q", s, out.Dropped)
				}
			}
		})
	}
}

// requestFeatureBody returns the body of a row of the table.
func requestFeatureBody(name string, f wire.Format) string {
	for _, feature := range features {
		if feature.name == name {
			return feature.say[f]
		}
	}
	panic("no feature " + name)
}

// An error names the field, with its index, and has no content.
func TestUnsupported(t *testing.T) {
	_, err := translate.Convert(wire.OpenAIResponses, wire.OpenAIChat,
		translate.Incoming{Body: []byte(`{"model":"m","input":[{"role":"user","content":"secret"},{"type":"compaction",` +
			`"encrypted_content":"secret"}]}`)}, translate.Options{})
	var refused *translate.Unsupported
	if !errors.As(err, &refused) || refused.Field != "input[1].type" || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
	_, err = translate.Convert(wire.OpenAIResponses, wire.OpenAIChat,
		translate.Incoming{Body: []byte(`{"model":"m","input":[{"id":"msg_1"},{"role":"user","content":"Hi"}]}`)},
		translate.Options{})
	if !errors.As(err, &refused) || refused.Reason != translate.NotStored {
		t.Errorf("a reference without a type: got %v", err)
	}
	for _, body := range []string{``, `[]`, `{`, `{"a":}`, `{} {}`, strings.Repeat(`{"a":[`, 400), `{"model":"m"}`} {
		if _, err := translate.Convert(wire.Anthropic, wire.OpenAIChat, translate.Incoming{Body: []byte(body)},
			translate.Options{}); !errors.Is(err, translate.ErrBody) {
			t.Errorf("%.20q: got %v", body, err)
		}
	}
}

// Unknown members are listed by names that are valid in a header.
func TestDroppedNames(t *testing.T) {
	out := convert(t, wire.Anthropic, wire.OpenAIChat,
		`{"model":"m","new\r\nX-Evil: ü":1,"unused":null,"messages":[{"role":"user","clear_at":"x",`+
			`"content":[{"type":"text","text":"Hi","citations":[{}]}]}]}`, "", translate.Options{})
	want := []string{"messages[].clear_at", "messages[].content[].citations", "new??X-Evil????"}
	if !slices.Equal(out.Dropped, want) {
		t.Errorf("got %q, want %q", out.Dropped, want)
	}
}

func TestOutgoing(t *testing.T) {
	out, err := translate.Convert(wire.OpenAIChat, wire.Gemini,
		translate.Incoming{
			Body: []byte(`{"model":"big","stream":true,"messages":[` + question + `]}`),
			Path: "/team/v1/chat/completions", Query: "x=1",
		},
		translate.Options{Model: func(string) string { return "gemini-3.1-pro" }})
	if err != nil {
		t.Fatal(err)
	}
	if out.Path != "/team/v1beta/models/gemini-3.1-pro:streamGenerateContent" || out.Query != "alt=sse" ||
		out.Model != "big" || !out.Stream || out.IncludeUsage {
		t.Errorf("got %+v", out)
	}
	out, err = translate.Convert(wire.Gemini, wire.OpenAIResponses, translate.Incoming{
		Body: []byte(plainGemini),
		Path: "/v1beta/models/m:generateContent", Query: "key=k",
	}, translate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if out.Path != "/v1/responses" || out.Query != "" || out.Model != "m" || out.Stream || !out.IncludeUsage ||
		!slices.Equal(out.Stop, []string{"a\nb"}) {
		t.Errorf("got %+v", out)
	}
	for _, path := range []string{"/v1beta/models/m:countTokens", "/v1beta/models/:generateContent", "/"} {
		if _, err := translate.Convert(wire.Gemini, wire.OpenAIChat, translate.Incoming{
			Body: []byte(plainGemini),
			Path: path,
		}, translate.Options{}); !errors.Is(err, translate.ErrBody) {
			t.Errorf("%s: got %v", path, err)
		}
	}
	out, err = translate.Convert(wire.Gemini, wire.Anthropic, translate.Incoming{
		Body: []byte(plainGemini),
		Path: "/x/v1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent",
	}, translate.Options{})
	if err != nil || out.Path != "/x/v1/messages" || !out.Stream {
		t.Errorf("got %+v, %v", out, err)
	}
	var refused *translate.Unsupported
	if _, err := translate.Convert(wire.OpenAIChat, wire.Gemini,
		translate.Incoming{Body: []byte(`{"model":"../../admin","messages":[` + question + `]}`)},
		translate.Options{}); !errors.As(err, &refused) {
		t.Errorf("a model that climbs out of its path: got %v", err)
	}
}

const plainGemini = `{"contents":[{"parts":[{"text":"Hi"}]}],"generationConfig":{"stop_sequences":["a\nb"]}}`

func TestNames(t *testing.T) {
	long := strings.Repeat("very_long_", 9)
	out := convert(t, wire.OpenAIResponses, wire.OpenAIChat, `{"model":"m","tools":[{"type":"function","name":"`+long+
		`1"},{"type":"function","name":"`+long+
		`2"},{"type":"function","name":"a b"},{"type":"function","name":"crm__f"},{"type":"namespace","name":"crm",`+
		`"tools":[{"type":"function","name":"f"},{"type":"custom","name":"x"}]}],"input":[{"role":"user","content":"Hi"},`+
		`{"type":"function_call","call_id":"1","name":"`+long+
		`2","arguments":"{}"},{"type":"function_call","call_id":"2","namespace":"crm","name":"f","arguments":"{}"}]}`, "",
		translate.Options{})
	q, err := translate.Read(wire.OpenAIChat, translate.Incoming{Body: out.Body})
	if err != nil {
		t.Fatal(err)
	}
	want := []translate.ToolName{
		{Name: long + "1"},
		{Name: long + "2"},
		{Name: "a b"},
		{Name: "crm__f"},
		{Namespace: "crm", Name: "f"},
		{Namespace: "crm", Name: "x", Custom: true},
	}
	seen := map[string]bool{}
	for i, tool := range q.Tools {
		if len(tool.Name) > 64 || strings.Contains(tool.Name, " ") || seen[tool.Name] {
			t.Errorf("not a name for chat: %q", tool.Name)
		}
		seen[tool.Name] = true
		if got := out.Names.Client(tool.Name); got != want[i] {
			t.Errorf("%s: got %+v, want %+v", tool.Name, got, want[i])
		}
	}
	calls := q.Messages[1].Parts[1:] // after an empty text
	if calls[0].Tool.Name != q.Tools[1].Name || calls[1].Tool.Name != q.Tools[4].Name {
		t.Errorf("calls of other tools than those listed: %+v", calls)
	}
	var none *translate.Names
	if none.Client("f").Name != "f" {
		t.Error("no names at all map to themselves")
	}
}

func TestHeaders(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to wire.Format
		in       map[string][]string
		query    string
		want     map[string][]string
		dropped  []string
	}{{
		name: "Claude Code to OpenAI", from: wire.Anthropic, to: wire.OpenAIChat,
		in: map[string][]string{
			"X-Api-Key": {"k"}, "Anthropic-Version": {"2023-06-01"}, "Anthropic-Beta": {"x"},
			"User-Agent": {"u"},
		},
		want: map[string][]string{
			"Authorization": {"Bearer k"}, "User-Agent": {"u"},
			"Content-Type": {"application/json"},
		},
		dropped: []string{"anthropic-beta"},
	}, {
		name: "OpenAI to Anthropic", from: wire.OpenAIResponses, to: wire.Anthropic,
		in: map[string][]string{"Authorization": {"bearer k"}, "Openai-Organization": {"o"}, "Openai-Beta": {"b"}},
		want: map[string][]string{
			"X-Api-Key": {"k"}, "Anthropic-Version": {"2023-06-01"},
			"Content-Type": {"application/json"},
		},
		dropped: []string{"openai-beta", "openai-organization"},
	}, {
		name: "an account's token stays a bearer token", from: wire.OpenAIChat, to: wire.Anthropic,
		in: map[string][]string{"Authorization": {"Bearer sk-ant-oat01-x"}},
		want: map[string][]string{
			"Authorization": {"Bearer sk-ant-oat01-x"}, "Anthropic-Version": {"2023-06-01"},
			"Content-Type": {"application/json"},
		},
	}, {
		name: "Gemini's key in the query", from: wire.Gemini, to: wire.OpenAIChat, query: "key=k&alt=sse",
		in:      map[string][]string{"X-Goog-Api-Client": {"gl-node"}},
		want:    map[string][]string{"Authorization": {"Bearer k"}, "Content-Type": {"application/json"}},
		dropped: []string{"x-goog-api-client"},
	}, {
		name: "to Gemini", from: wire.Anthropic, to: wire.Gemini,
		in:   map[string][]string{"Authorization": {"Bearer k"}},
		want: map[string][]string{"X-Goog-Api-Key": {"k"}, "Content-Type": {"application/json"}},
	}, {
		name: "a junk key beside a chat client's own", from: wire.OpenAIChat, to: wire.Anthropic, query: "key=1",
		in: map[string][]string{"Authorization": {"Bearer k"}, "X-Api-Key": {"junk"}, "X-Goog-Api-Key": {"junk"}},
		want: map[string][]string{
			"X-Api-Key": {"k"}, "Anthropic-Version": {"2023-06-01"},
			"Content-Type": {"application/json"},
		},
	}, {
		name: "junk beside a Messages client's own", from: wire.Anthropic, to: wire.Gemini, query: "key=1",
		in:   map[string][]string{"Authorization": {"Bearer junk"}, "X-Api-Key": {"k"}, "X-Goog-Api-Key": {"junk"}},
		want: map[string][]string{"X-Goog-Api-Key": {"k"}, "Content-Type": {"application/json"}},
	}, {
		name: "junk beside Gemini's key in the query", from: wire.Gemini, to: wire.Anthropic, query: "key=k&%zz",
		in: map[string][]string{"Authorization": {"Bearer sk-ant-oat-junk"}, "X-Api-Key": {"junk"}},
		want: map[string][]string{
			"X-Api-Key": {"k"}, "Anthropic-Version": {"2023-06-01"},
			"Content-Type": {"application/json"},
		},
	}, {
		name: "an empty key of the API's own", from: wire.Anthropic, to: wire.OpenAIChat,
		in:   map[string][]string{"X-Api-Key": {""}, "Authorization": {"Bearer k"}},
		want: map[string][]string{"Authorization": {"Bearer k"}, "Content-Type": {"application/json"}},
	}, {
		name: "a password is no key", from: wire.Anthropic, to: wire.OpenAIChat,
		in:   map[string][]string{"Authorization": {"Basic k"}},
		want: map[string][]string{"Authorization": {"Basic k"}, "Content-Type": {"application/json"}},
	}, {
		name: "one format", from: wire.Gemini, to: wire.Gemini, query: "key=k",
		in: map[string][]string{"X-Goog-Api-Client": {"x"}}, want: map[string][]string{"X-Goog-Api-Client": {"x"}},
	}} {
		t.Run(c.name, func(t *testing.T) {
			dropped := translate.Headers(c.from, c.to, c.in, c.query)
			if !slices.Equal(dropped, c.dropped) {
				t.Errorf("dropped %q, want %q", dropped, c.dropped)
			}
			if len(c.in) != len(c.want) {
				t.Errorf("got %v, want %v", c.in, c.want)
			}
			for name, v := range c.want {
				if !slices.Equal(c.in[name], v) {
					t.Errorf("%s: got %q, want %q", name, c.in[name], v)
				}
			}
		})
	}
}

// TestBlankStops: an answer is cut at stop sequences that the provider would refuse.
func TestBlankStops(t *testing.T) {
	body := `{"model":"m","stop":["\n\n","END"],"messages":[` + question + `]}`
	for official, want := range map[bool][]string{true: {"\n\n", "END"}, false: nil} {
		if out := convert(t, wire.OpenAIChat, wire.Anthropic, body, "",
			translate.Options{Official: official}); !slices.Equal(out.Stop, want) {
			t.Errorf("official %t: %q, want %q", official, out.Stop, want)
		}
	}
}

// For any cuts of a text, the output ends before the first stop sequence.
func TestStops(t *testing.T) {
	for _, c := range []struct{ text, want, hit string }{
		{"ab</block>cd", "ab", "</block>"},
		{"ab</blo cd", "ab</blo cd", ""},
		{"ab<</block>", "ab<", "</block>"},
		{"ENDE</block>", "", "END"},
		{"abEN", "abEN", ""},
		{"", "", ""},
	} {
		for size := 1; size <= len(c.text)+1; size++ {
			s := translate.Stops{Sequences: []string{"</block>", "END", ""}}
			var got strings.Builder
			for piece := range slices.Chunk([]byte(c.text), size) {
				got.WriteString(s.Feed(string(piece)))
			}
			if s.Hit == "" {
				got.WriteString(s.Rest())
			}
			if got.String() != c.want || s.Hit != c.hit {
				t.Errorf("%q in pieces of %d: got %q and %q, want %q and %q", c.text, size, got.String(), s.Hit, c.want, c.hit)
			}
		}
	}
}
