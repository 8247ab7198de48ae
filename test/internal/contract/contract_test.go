// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"strings"
	"testing"
)

// requests are valid, and every defect inserted into one is found.
var requests = map[API]string{
	Anthropic: `{"model":"m","max_tokens":9,"system":"s","tools":[{"name":"f","input_schema":{"type":"object",` +
		`"properties":{}}}],"tool_choice":{"type":"auto"},"messages":[` +
		`{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text","text":"t"},{"type":"tool_use",` +
		`"id":"a","name":"f","input":{}},{"type":"tool_use","id":"b","name":"f","input":{}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"r"},{"type":"tool_result",` +
		`"tool_use_id":"b","content":[{"type":"text","text":"r","cache_control":{"type":"ephemeral"}}]}]}]}`,
	Chat: `{"model":"m","stream":true,"stream_options":{"include_usage":true},"tools":[{"type":"function",` +
		`"function":{"name":"f","parameters":{"type":"object"}}}],"messages":[` +
		`{"role":"system","content":"s"},{"role":"user","content":"hi"},{"role":"assistant","content":null,` +
		`"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function",` +
		`"function":{"name":"f","arguments":"{}"}}]},` +
		`{"role":"tool","tool_call_id":"a","content":"r"},{"role":"tool","tool_call_id":"b","content":"r"}]}`,
	Responses: `{"model":"m","store":false,"instructions":"s","tools":[{"type":"function","name":"f",` +
		`"parameters":{"type":"object"},"strict":false}],"input":[` +
		`{"role":"user","content":[{"type":"input_text","text":"hi"}]},{"type":"function_call","call_id":"a","name":"f",` +
		`"arguments":"{}"},{"type":"function_call","call_id":"b","name":"f","arguments":"{}"},` +
		`{"type":"function_call_output","call_id":"a","output":"r"},{"type":"function_call_output","call_id":"b",` +
		`"output":"r"}]}`,
	Gemini: `{"systemInstruction":{"parts":[{"text":"s"}]},"tools":[{"functionDeclarations":[{"name":"f",` +
		`"parametersJsonSchema":{"type":"object"}}]}],"contents":[` +
		`{"role":"user","parts":[{"text":"hi"}]},{"role":"model","parts":[{"functionCall":{"id":"a","name":"f",` +
		`"args":{}}},{"functionCall":{"id":"b","name":"f","args":{}}}]},` +
		`{"role":"user","parts":[{"functionResponse":{"id":"a","name":"f","response":{"output":"r"}}},` +
		`{"functionResponse":{"id":"b","name":"f","response":{"output":"r"}}}]}]}`,
}

func init() {
	requests[Interactions] = `{"model":"m","store":false,"system_instruction":"s","tools":[{"type":"function",` +
		`"name":"f","parameters":{"type":"object"}}],"input":[` +
		`{"type":"user_input","content":[{"type":"text","text":"hi"}]},{"type":"thought","signature":"c2ln"},` +
		`{"type":"function_call","id":"a","name":"f","arguments":{}},{"type":"function_call","id":"b","name":"f",` +
		`"arguments":{}},` +
		`{"type":"function_result","call_id":"a","name":"f","result":"r"},{"type":"function_result","call_id":"b",` +
		`"name":"f","result":[{"type":"text","text":"r"}]}]}`
	named := func(kind, rest string) string {
		return "event: " + kind + "\ndata: {" + rest + `"event_type":"` + kind + `"}` + "\n\n"
	}
	answers[Interactions] = named("interaction.created",
		`"interaction":{"id":"v1_a","status":"in_progress","object":"interaction","model":"m"},`) +
		named("step.start", `"index":0,"step":{"type":"model_output"},`) +
		named("step.delta", `"index":0,"delta":{"type":"text","text":"t"},`) + named("step.stop", `"index":0,`) +
		named("step.start", `"index":1,"step":{"type":"function_call","id":"a","name":"f","arguments":{}},`) +
		named("step.delta", `"index":1,"delta":{"type":"arguments_delta","arguments":"{}"},`) +
		named("step.stop", `"index":1,`) +
		named("interaction.completed",
			`"interaction":{"id":"v1_a","status":"requires_action","model":"m","usage":{"total_tokens":5,`+
				`"total_input_tokens":3,"total_output_tokens":2}},`) + "event: done\ndata: [DONE]\n\n"
}

func TestRequest(t *testing.T) {
	for api, sound := range requests {
		if found := Request(api, []byte(sound)); len(found) > 0 {
			t.Errorf("%s: in a sound request: %v", api, found)
		}
	}
	for i, c := range []struct {
		api           API
		old, new      string
		path, finding string
	}{
		{Anthropic, `"max_tokens"`, `"max_token"`, ".max_token", "is not known"},
		{Anthropic, `"max_tokens":9,`, ``, ".max_tokens", "is missing"},
		{Anthropic, `"cache_control":{`, `"cache_control":null,"cache_control":{`, "cache_control", "stands twice"},
		{Anthropic, `"tool_use_id":"b"`, `"tool_use_id":"c"`, "messages", "without an open call"},
		{Anthropic, `"tool_use_id":"b"`, `"tool_use_id":"a"`, "messages", "without an open call"},
		{Anthropic, `{"type":"tool_result","tool_use_id":"a","content":"r"},`, ``, "messages", "without a result"},
		{
			Anthropic, `{"type":"tool_result","tool_use_id":"a"`,
			`{"type":"text","text":"x"},{"type":"tool_result","tool_use_id":"a"`, "content", "behind something else",
		},
		{Anthropic, `"id":"b"`, `"id":"a"`, "messages", "two calls of one id"},
		{Anthropic, `"id":"b"`, `"id":"b b"`, "id", "is none"},
		{
			Anthropic, `{"role":"user","content":"hi"}`, `{"role":"user","content":"hi"},{"role":"user","content":"hi"}`,
			"messages", "on end",
		},
		{Anthropic, `{"role":"user","content":"hi"},`, ``, "messages", "begins with role assistant"},
		{Anthropic, `"content":"hi"`, `"content":""`, "content", "is empty"},
		{Anthropic, `"text":"t"`, `"text":""`, "content", "empty text"},
		{Anthropic, `"text":"t"`, `"text":7`, "text", "is a number"},
		{Anthropic, `"type":"tool_result"`, `"type":"tool_results"`, "content[]", "is no"},
		{Anthropic, `"input":{}`, `"input":{},"inputs":{}`, "inputs", "is not known"},
		{Anthropic, `"type":"auto"`, `"type":"tool","name":"g"`, "tools", "lacks the one"},
		{Anthropic, `"system":"s"`, `"system":""`, "system", "is empty"},
		{Chat, `"tool_call_id":"b"`, `"tool_call_id":"c"`, "messages", "without an open call"},
		{Chat, `"id":"b"`, `"id":"a"`, "messages", "two calls of one id"},
		{Chat, `"arguments":"{}"`, `"arguments":{}`, "arguments", "is an object"},
		{Chat, `"arguments":"{}"`, `"arguments":"{"`, "arguments", "no JSON object"},
		{Chat, `"tool_calls"`, `"tool_call"`, "tool_call", "is not known"},
		{Chat, `"stream":true,`, ``, "stream_options", "without a stream"},
		{Chat, `{"role":"user","content":"hi"},`, ``, "messages", "begins with role assistant"},
		{Chat, `{"role":"user","content":"hi"}`, `{"role":"user","content":[]}`, "content", "is empty"},
		{Chat, `"role":"tool","tool_call_id":"b"`, `"role":"user","tool_call_id":"b"`, "messages", "without a result"},
		{Chat, `"name":"f","parameters"`, `"name":"a b","parameters"`, "tools", "a name that is none"},
		{
			Responses, `{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},`, ``, "input",
			"without an open call",
		},
		{Responses, `"call_id":"b","output"`, `"callid":"b","output"`, "callid", "is not known"},
		{Responses, `"input_text"`, `"text"`, "content[]", "is no"},
		{Responses, `"store":false`, `"store":"no"`, "store", "is a string"},
		{Responses, `"input":[`, `"input":"","x":[`, "input", "is empty"},
		{Interactions, `"call_id":"b"`, `"call_id":"c"`, "input", "without an open call"},
		{Interactions, `{"type":"function_result","call_id":"a","name":"f","result":"r"},`, ``, "input", "without a result"},
		{Interactions, `"id":"b"`, `"id":"a"`, "input", "two calls of one id"},
		{Interactions, `"name":"f","arguments":{}`, `"name":"f","arguments":"{}"`, "input[]", "a call without"},
		{Interactions, `"type":"user_input"`, `"type":"message"`, "input[]", "is no step"},
		{Interactions, `"text":"hi"`, `"text":""`, "content[]", "empty text"},
		{Interactions, `"store":false`, `"store":"no"`, "", "the SDK reads"},
		{Interactions, `"input":[`, `"input":[],"x":[`, "input", "is empty"},
		{
			Gemini, `"functionResponse":{"id":"b","name":"f"`, `"functionResponse":{"id":"c","name":"g"`, "contents",
			"without an open call",
		},
		{Gemini, `{"functionResponse":{"id":"a","name":"f","response":{"output":"r"}}},`, ``, "contents", "without a result"},
		{Gemini, `"parts":[{"text":"hi"}]`, `"parts":[]`, "parts", "is empty"},
		{Gemini, `{"text":"hi"}`, `{"text":"hi","inlineData":{"mimeType":"image/png","data":"eA=="}}`, "parts[]", "2 things"},
		{Gemini, `"args":{}`, `"arguments":{}`, "arguments", "is not known"},
		{Gemini, `{"role":"model"`, `{"role":"model","parts":[{"text":"x"}]},{"role":"model"`, "contents", "on end"},
		{Gemini, `"contents":[`, `"contents":[],"content":[`, "contents", "is empty"},
	} {
		found := Request(c.api, []byte(strings.Replace(requests[c.api], c.old, c.new, 1)))
		if !holds(found, c.path, c.finding) {
			t.Errorf("%d: %s in the place of %s (%s): found %v", i, c.new, c.old, c.api, found)
		}
	}
	empty := []byte(`{"model":"m","max_tokens":9,"messages":[]}`)
	for _, api := range []API{Anthropic, Chat} {
		if !holds(Request(api, empty), "messages", "is empty") {
			t.Errorf("%s: no messages at all", api)
		}
	}
}

func holds(found []Finding, path, what string) bool {
	for _, f := range found {
		if strings.HasSuffix(f.Path, path) && strings.Contains(f.What, what) {
			return true
		}
	}
	return false
}

func sse(named bool, events ...string) string {
	var b strings.Builder
	for _, e := range events {
		if v, err := Parse([]byte(e)); err == nil && named {
			fmt.Fprintf(&b, "event: %s\n", v.String("type"))
		}
		b.WriteString("data: " + e + "\n\n")
	}
	return b.String()
}

// answers are valid streams.
var answers = map[API]string{
	Anthropic: sse(true,
		`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],`+
			`"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"cache_creation_input_tokens":0,`+
			`"cache_read_input_tokens":0,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"t"}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"a","name":"f","input":{}}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}}`,
		`{"type":"content_block_stop","index":1}`,
		`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":1,`+
			`"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":9}}`, `{"type":"message_stop"}`),
	Chat: sse(false,
		`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,`+
			`"delta":{"role":"assistant","content":"t"},"finish_reason":null}]}`,
		`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,`+
			`"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{"}}]},`+
			`"finish_reason":null}]}`,
		`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,`+
			`"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]},"finish_reason":null}]}`,
		`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},`+
			`"finish_reason":"tool_calls"}]}`, `[DONE]`),
	Responses: sse(true,
		`{"type":"response.created","sequence_number":0,"response":{"id":"r","object":"response","created_at":1,`+
			`"model":"m","status":"in_progress","output":[],"parallel_tool_calls":true,"tool_choice":"auto","tools":[]}}`,
		`{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"type":"function_call",`+
			`"id":"fc","call_id":"a","name":"f","arguments":"","status":"in_progress"}}`,
		`{"type":"response.function_call_arguments.delta","sequence_number":2,"item_id":"fc","output_index":0,"delta":"{}"}`,
		`{"type":"response.function_call_arguments.done","sequence_number":3,"item_id":"fc","output_index":0,`+
			`"arguments":"{}"}`,
		`{"type":"response.output_item.done","sequence_number":4,"output_index":0,"item":{"type":"function_call",`+
			`"id":"fc","call_id":"a","name":"f","arguments":"{}","status":"completed"}}`,
		`{"type":"response.completed","sequence_number":5,"response":{"id":"r","object":"response","created_at":1,`+
			`"model":"m","status":"completed","output":[{"type":"function_call","id":"fc","call_id":"a","name":"f",`+
			`"arguments":"{}","status":"completed"}],"parallel_tool_calls":true,"tool_choice":"auto","tools":[]}}`),
	Gemini: sse(false, `{"candidates":[{"content":{"role":"model","parts":[{"text":"t"}]},"index":0}]}`,
		`{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"id":"a","name":"f","args":{}}}]},`+
			`"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2,`+
			`"totalTokenCount":5}}`),
}

func TestAnswer(t *testing.T) {
	stream := func(body string) Reply { return Reply{Status: 200, Type: "text/event-stream", Body: []byte(body)} }
	for api, sound := range answers {
		if found := Answer(api, stream(sound)); len(found) > 0 {
			t.Errorf("%s: in a sound answer: %v", api, found)
		}
		for n := 0; n < len(sound); n += 7 {
			r := stream(sound[:n])
			if r.Cut = true; len(Answer(api, r)) > 0 {
				t.Errorf("%s: in a sound answer that is cut at %d: %v", api, n, Answer(api, r))
				break
			}
		}
	}
	for i, c := range []struct {
		api           API
		old, new      string
		path, finding string
	}{
		{Anthropic, `"stop_reason":"tool_use"`, `"stop_reason":"end_turn"`, "stop_reason", "in spite of a call"},
		{Anthropic, `"stop_reason":"tool_use"`, `"stop_reason":"tool_calls"`, "stop_reason", "is none"},
		{Anthropic, `"stop_reason":"tool_use"`, `"stop_reasons":"tool_use"`, "stop_reasons", "is not known"},
		{Anthropic, `"index":1,"content_block"`, `"index":2,"content_block"`, "content_block_start", "out of order"},
		{
			Anthropic, `"type":"text_delta"`, `"type":"thinking_delta","thinking":"x"`, "content_block_delta",
			"thinking_delta in a block of text",
		},
		{Anthropic, `"partial_json":"{}"`, `"partial_json":"{"`, "content_block.input", "no JSON object"},
		{Anthropic, "event: message_stop", "event: message_end", "", "named"},
		{Anthropic, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", "", "", "ends in"},
		{Anthropic, `"id":"a"`, `"id":""`, "id", "is empty"},
		{Chat, "data: [DONE]\n\n", "", "", "without [DONE]"},
		{Chat, `"finish_reason":"tool_calls"`, `"finish_reason":"stop"`, "finish_reason", "in spite of a call"},
		{Chat, `"arguments":"}"`, `"arguments":"]"`, "arguments", "no JSON object"},
		{Chat, `"id":"a","type":"function",`, `"type":"function",`, "id", "is empty"},
		{Chat, `"id":"c"`, `"id":"d"`, "id", "changes"},
		{Chat, `"delta":{}`, `"delta":{"tool_call":[]}`, "tool_call", "is not known"},
		{Responses, `"sequence_number":3`, `"sequence_number":4`, "sequence_number", "out of order"},
		{Responses, `"delta":"{}"`, `"delta":"{"`, "done", "is not what was said"},
		{Responses, `"item_id":"fc"`, `"item_id":"fd"`, "item_id", "never added"},
		{
			Responses, `"output":[{"type":"function_call","id":"fc"`, `"output":[{"type":"function_call","id":"fd"`,
			"response.output", "is not what was done",
		},
		{Interactions, `"status":"requires_action"`, `"status":"completed"`, "status", "with calls"},
		{Interactions, `"index":1,"step"`, `"index":2,"step"`, "step.start", "out of order"},
		{Interactions, `"arguments":"{}"`, `"arguments":"{"`, "step.arguments", "no JSON object"},
		{Interactions, "event: done\ndata: [DONE]\n\n", "", "", "ends in"},
		{Interactions, "event: step.stop", "event: step.end", "", "named"},
		{Interactions, `"total_tokens":5`, `"total_tokens":6`, "total_tokens", "is not the sum"},
		{Gemini, `"finishReason":"STOP",`, ``, "finishReason", "is missing"},
		{Gemini, `"totalTokenCount":5`, `"totalTokenCount":6`, "totalTokenCount", "is not the sum"},
		{Gemini, `"args":{}`, `"args":"{}"`, "args", "is a string"},
		{Gemini, `{"text":"t"}`, `{}`, "parts[]", "0 things"},
	} {
		found := Answer(c.api, stream(strings.Replace(answers[c.api], c.old, c.new, 1)))
		if !holds(found, c.path, c.finding) {
			t.Errorf("%d: %s in the place of %s (%s): found %v", i, c.new, c.old, c.api, found)
		}
	}
}
