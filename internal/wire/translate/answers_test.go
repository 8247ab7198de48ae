// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/seal"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// said is an answer in one upstream's format: a stream's events, and the same answer as JSON.
type said map[wire.Format][2]string

func streamed(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		if name := gjson.Get(e, "type").Str; name != "" {
			b.WriteString("event: " + name + "\n")
		}
		b.WriteString("data: " + e + "\n\n")
	}
	return b.String()
}

// tools is an answer with thinking, its signature, text and two parallel calls, in each provider's
// form.
var toolsSaid = said{
	wire.Anthropic: {
		streamed(
			`{"type":"message_start","message":{"id":"m1","type":"message","role":"assistant","model":"claude","content":[],`+
				`"usage":{"input_tokens":10,"cache_creation_input_tokens":30,"cache_read_input_tokens":100,`+
				`"cache_creation":{"ephemeral_5m_input_tokens":10,"ephemeral_1h_input_tokens":20},"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm \"so\"."}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2lnbmF0dXJl"}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"ping"}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Look: ü\n"}}`,
			`{"type":"content_block_stop","index":1}`,
			`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"call_a","name":"read","input":{}}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"p\":"}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"1}"}}`,
			`{"type":"content_block_stop","index":2}`,
			`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"call_b","name":"now","input":{}}}`,
			`{"type":"content_block_stop","index":3}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":50}}`,
			`{"type":"message_stop"}`,
		),
		`{"id":"m1","type":"message","role":"assistant","model":"claude","content":[{"type":"thinking","thinking":"Hm ` +
			`\"so\".","signature":"c2lnbmF0dXJl"},{"type":"text","text":"Look: ü\n"},{"type":"tool_use","id":"call_a",` +
			`"name":"read","input":{"p":1}},{"type":"tool_use","id":"call_b","name":"now","input":{}}],` +
			`"stop_reason":"tool_use","usage":{"input_tokens":10,"cache_creation_input_tokens":30,` +
			`"cache_read_input_tokens":100,"cache_creation":{"ephemeral_5m_input_tokens":10,"ephemeral_1h_input_tokens":20},` +
			`"output_tokens":50}}`,
	},
	wire.OpenAIChat: {
		streamed(
			`{"id":"m1","object":"chat.completion.chunk","model":"qwen","choices":[{"index":0,"delta":{"role":"assistant",`+
				`"content":""}}]}`,
			`{"id":"m1","model":"qwen","choices":[{"index":0,"delta":{"reasoning_content":"Hm \"so\"."}}]}`,
			`{"id":"m1","model":"qwen","choices":[{"index":0,"delta":{"content":"Look: ü\n"}}]}`,
			`{"id":"m1","model":"qwen","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_a",`+
				`"type":"function","function":{"name":"read","arguments":"{\"p\":"}}]}}]}`,
			`{"id":"m1","model":"qwen","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_b",`+
				`"type":"function","function":{"name":"now","arguments":""}}]}}]}`,
			`{"id":"m1","model":"qwen","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,`+
				`"function":{"arguments":"1}"}}]}}]}`,
			`{"id":"m1","model":"qwen","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`,
			`{"id":"m1","model":"qwen","choices":[],"usage":{"prompt_tokens":140,"completion_tokens":50,"total_tokens":190,`+
				`"prompt_tokens_details":{"cached_tokens":100,"cache_write_tokens":30}}}`,
		) + "data: [DONE]\n\n",
		`{"id":"m1","object":"chat.completion","model":"qwen","choices":[{"index":0,"message":{"role":"assistant",` +
			`"content":"Look: ü\n","reasoning_content":"Hm \"so\".","tool_calls":[{"id":"call_a","type":"function",` +
			`"function":{"name":"read","arguments":"{\"p\":1}"}},{"id":"call_b","type":"function","function":{"name":"now",` +
			`"arguments":""}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":140,"completion_tokens":50,` +
			`"total_tokens":190,"prompt_tokens_details":{"cached_tokens":100,"cache_write_tokens":30}}}`,
	},
	wire.OpenAIResponses: {
		streamed(
			`{"type":"response.created","sequence_number":0,"response":{"id":"m1","model":"gpt","status":"in_progress",`+
				`"output":[]}}`,
			`{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[]}}`,
			`{"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"Hm \"so\"."}`,
			`{"type":"response.output_item.done","output_index":0,"item":{"id":"rs_1","type":"reasoning",`+
				`"summary":[{"type":"summary_text","text":"Hm \"so\"."}],"encrypted_content":"c2lnbmF0dXJl"}}`,
			`{"type":"response.output_item.added","output_index":1,"item":{"id":"msg_1","type":"message","role":"assistant",`+
				`"content":[]}}`,
			`{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"Look: ü\n"}`,
			`{"type":"response.output_item.done","output_index":1,"item":{"id":"msg_1","type":"message","role":"assistant",`+
				`"content":[{"type":"output_text","text":"Look: ü\n"}]}}`,
			`{"type":"response.output_item.added","output_index":2,"item":{"id":"fc_1","type":"function_call",`+
				`"call_id":"call_a","name":"read","arguments":""}}`,
			`{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{\"p\":1}"}`,
			`{"type":"response.function_call_arguments.done","output_index":2,"arguments":"{\"p\":1}"}`,
			`{"type":"response.output_item.done","output_index":2,"item":{"id":"fc_1","type":"function_call",`+
				`"call_id":"call_a","name":"read","arguments":"{\"p\":1}"}}`,
			`{"type":"response.output_item.added","output_index":3,"item":{"id":"fc_2","type":"function_call",`+
				`"call_id":"call_b","name":"now","arguments":""}}`,
			`{"type":"response.output_item.done","output_index":3,"item":{"id":"fc_2","type":"function_call",`+
				`"call_id":"call_b","name":"now","arguments":"{}"}}`,
			`{"type":"response.completed","response":{"id":"m1","model":"gpt","status":"completed","output":[],`+
				`"usage":{"input_tokens":140,"input_tokens_details":{"cached_tokens":100,"cache_write_tokens":30},`+
				`"output_tokens":50,"output_tokens_details":{"reasoning_tokens":7},"total_tokens":190}}}`,
		),
		`{"id":"m1","object":"response","model":"gpt","status":"completed","output":[{"id":"rs_1","type":"reasoning",` +
			`"summary":[{"type":"summary_text","text":"Hm \"so\"."}],"encrypted_content":"c2lnbmF0dXJl"},{"id":"msg_1",` +
			`"type":"message","role":"assistant","content":[{"type":"output_text","text":"Look: ü\n"}]},{"id":"fc_1",` +
			`"type":"function_call","call_id":"call_a","name":"read","arguments":"{\"p\":1}"},{"id":"fc_2",` +
			`"type":"function_call","call_id":"call_b","name":"now","arguments":"{}"}],"usage":{"input_tokens":140,` +
			`"input_tokens_details":{"cached_tokens":100,"cache_write_tokens":30},"output_tokens":50,` +
			`"output_tokens_details":{"reasoning_tokens":7},"total_tokens":190}}`,
	},
	wire.Gemini: {
		streamed(
			`{"responseId":"m1","modelVersion":"gemini","candidates":[{"index":0,"content":{"role":"model",`+
				`"parts":[{"text":"Hm \"so\".","thought":true}]}}]}`,
			`{"responseId":"m1","modelVersion":"gemini","candidates":[{"index":0,"content":{"role":"model",`+
				`"parts":[{"text":"Look: ü\n"}]}}]}`,
			`{"responseId":"m1","modelVersion":"gemini","candidates":[{"index":0,"content":{"role":"model",`+
				`"parts":[{"functionCall":{"id":"call_a","name":"read","args":{"p":1}},"thoughtSignature":"c2lnbmF0dXJl"},`+
				`{"functionCall":{"id":"call_b","name":"now","args":{}}}]}}]}`,
			`{"responseId":"m1","modelVersion":"gemini","candidates":[{"index":0,"content":{"role":"model",`+
				`"parts":[{"text":""}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":140,`+
				`"cachedContentTokenCount":100,"candidatesTokenCount":43,"thoughtsTokenCount":7,"totalTokenCount":190}}`,
		),
		`{"responseId":"m1","modelVersion":"gemini","candidates":[{"index":0,"content":{"role":"model",` +
			`"parts":[{"text":"Hm \"so\".","thought":true},{"text":"Look: ü\n"},{"functionCall":{"id":"call_a","name":"read",` +
			`"args":{"p":1}},"thoughtSignature":"c2lnbmF0dXJl"},{"functionCall":{"id":"call_b","name":"now","args":{}}}]},` +
			`"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":140,"cachedContentTokenCount":100,` +
			`"candidatesTokenCount":43,"thoughtsTokenCount":7,"totalTokenCount":190}}`,
	},
}

func init() {
	toolsSaid[wire.Interactions] = [2]string{
		streamed(
			`{"event_type":"interaction.created","interaction":{"id":"m1","status":"in_progress","model":"gemini"}}`,
			`{"event_type":"step.start","index":0,"step":{"type":"thought"}}`,
			`{"event_type":"step.delta","index":0,"delta":{"type":"thought_signature","signature":"c2lnbmF0dXJl"}}`,
			`{"event_type":"step.delta","index":0,"delta":{"type":"thought_summary","content":{"type":"text","text":"Hm `+
				`\"so\"."}}}`,
			`{"event_type":"step.stop","index":0}`,
			`{"event_type":"step.start","index":1,"step":{"type":"model_output"}}`,
			`{"event_type":"step.delta","index":1,"delta":{"type":"text","text":"Look: ü\n"}}`,
			`{"event_type":"step.stop","index":1}`,
			`{"event_type":"step.start","index":2,"step":{"type":"function_call","id":"call_a","name":"read","arguments":{}}}`,
			`{"event_type":"step.start","index":3,"step":{"type":"function_call","id":"call_b","name":"now","arguments":{}}}`,
			`{"event_type":"step.delta","index":2,"delta":{"type":"arguments_delta","arguments":"{\"p\":"}}`,
			`{"event_type":"step.delta","index":2,"delta":{"type":"arguments_delta","arguments":"1}"}}`,
			`{"event_type":"step.stop","index":2}`,
			`{"event_type":"step.stop","index":3}`,
			`{"event_type":"interaction.completed","interaction":{"id":"m1","status":"requires_action","model":"gemini",`+
				`"usage":{"total_input_tokens":140,"total_cached_tokens":100,"total_output_tokens":43,"total_thought_tokens":7,`+
				`"total_tokens":190}}}`,
		) + "event: done\ndata: [DONE]\n\n",
		`{"id":"m1","status":"requires_action","model":"gemini","steps":[{"type":"user_input","content":[{"type":"text",` +
			`"text":"x"}]},{"type":"thought","signature":"c2lnbmF0dXJl","summary":[{"type":"text","text":"Hm \"so\"."}]},` +
			`{"type":"model_output","content":[{"type":"text","text":"Look: ü\n"}]},{"type":"function_call","id":"call_a",` +
			`"name":"read","arguments":{"p":1}},{"type":"function_call","id":"call_b","name":"now","arguments":{}}],` +
			`"usage":{"total_input_tokens":140,"total_cached_tokens":100,"total_output_tokens":43,"total_thought_tokens":7,` +
			`"total_tokens":190}}`,
	}
}

// answerRows are the rows of the table of answers. Each cell translates an upstream's answer and
// decodes the output with the client's decoder.
func answerRows() []row {
	both := func(name string, check func(t *testing.T, client, upstream wire.Format, turn *wire.Turn,
		out string) bool,
	) row {
		return row{name, func(t *testing.T, client, upstream wire.Format) string {
			for i, body := range toolsSaid[upstream] {
				stream := i == 0
				out, _ := run(upstream, client, translate.Answering{Stream: stream, Usage: true}, []byte(body))
				turn := decoded(client, stream, out)
				if !turn.Done || !check(t, client, upstream, turn, string(out)) {
					t.Errorf("%s: %s from %s: %+v of\n%s", name, client, upstream, turn, out)
				}
			}
			return works
		}}
	}
	return []row{
		both("text", func(_ *testing.T, _, _ wire.Format, turn *wire.Turn,
			_ string,
		) bool {
			return turn.Text == "Look: ü\n"
		}),
		both("thinking", func(_ *testing.T, _, _ wire.Format, turn *wire.Turn, _ string) bool {
			return turn.Thinking == `Hm "so".`
		}),
		both("parallel calls, interleaved or not", func(_ *testing.T, _, _ wire.Format, turn *wire.Turn, _ string) bool {
			ids := [2]string{}
			for i := range min(2, len(turn.Calls)) {
				ids[i], _ = seal.OpenID(turn.Calls[i].ID)
			}
			return len(turn.Calls) == 2 && ids == [2]string{"call_a", "call_b"} && turn.Calls[0].Name == "read" &&
				turn.Calls[0].Arguments == `{"p":1}` && turn.Calls[1].Arguments == "{}" || turn.Calls[1].Arguments == ""
		}),
		both("why it ended", func(_ *testing.T, client, _ wire.Format, turn *wire.Turn, _ string) bool {
			return turn.StopReason == map[wire.Format]string{
				wire.Anthropic: "tool_use", wire.OpenAIChat: "tool_calls",
				wire.OpenAIResponses: "completed", wire.Gemini: "STOP", wire.Interactions: "requires_action",
			}[client]
		}),
		both("tokens read from the cache", func(_ *testing.T, _, _ wire.Format, turn *wire.Turn, _ string) bool {
			return turn.Usage.Read == 100 && turn.Usage.Prompt() == 140 && turn.Usage.Output == 50
		}),
		both("tokens written to the cache", func(_ *testing.T, _, upstream wire.Format, turn *wire.Turn, _ string) bool {
			return turn.Usage.Write5m+turn.Usage.Write1h == map[bool]int64{true: 0, false: 30}[upstream == wire.Gemini ||
				upstream == wire.Interactions]
		}),
		both("of these, for an hour", func(_ *testing.T, _, upstream wire.Format, turn *wire.Turn, _ string) bool {
			return turn.Usage.Write1h == map[bool]int64{true: 20}[upstream == wire.Anthropic]
		}),
		{"reasoning and its proof, given back with the next request", proofComesBack},
		{"error in a stream", errorInStream},
		{"error instead of an answer: a prompt that is too long", tooLongPrompt},
		{"cut stream", staysCut},
		{"sign of life in a stream", signOfLife},
	}
}

// proofComesBack answers a call with its result, as a client would, and checks the signature in the
// request to the upstream.
func proofComesBack(t *testing.T, client, upstream wire.Format) string {
	if client == upstream {
		return works
	}
	whole, _ := run(upstream, client, translate.Answering{}, []byte(toolsSaid[upstream][1]))
	a := gjson.ParseBytes(whole)
	var body string
	path := "/v1/x"
	switch client {
	case wire.Anthropic:
		body = fmt.Sprintf(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"},{"role":"assistant",`+
			`"content":%s},{"role":"user","content":[{"type":"tool_result","tool_use_id":%q,"content":"r"},`+
			`{"type":"tool_result","tool_use_id":%q,"content":"r"}]}]}`,
			a.Get("content").Raw, a.Get(`content.#(name=="read").id`).Str, a.Get(`content.#(name=="now").id`).Str)
	case wire.OpenAIChat:
		body = fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"x"},%s,{"role":"tool","tool_call_id":%q,`+
			`"content":"r"},{"role":"tool","tool_call_id":%q,"content":"r"}]}`,
			a.Get("choices.0.message").Raw, a.Get("choices.0.message.tool_calls.0.id").Str,
			a.Get("choices.0.message.tool_calls.1.id").Str)
	case wire.OpenAIResponses:
		body = fmt.Sprintf(`{"model":"m","input":[{"role":"user","content":"x"},%s,{"type":"function_call_output",`+
			`"call_id":%q,"output":"r"},{"type":"function_call_output","call_id":%q,"output":"r"}]}`,
			strings.Trim(a.Get("output").Raw, "[]"), a.Get(`output.#(name=="read").call_id`).Str,
			a.Get(`output.#(name=="now").call_id`).Str)
	case wire.Gemini:
		path = "/v1beta/models/m:generateContent"
		body = fmt.Sprintf(`{"contents":[{"role":"user","parts":[{"text":"x"}]},%s,{"role":"user",`+
			`"parts":[{"functionResponse":{"id":"call_a","name":"read","response":{"output":"r"}}},`+
			`{"functionResponse":{"id":"call_b","name":"now","response":{"output":"r"}}}]}]}`,
			a.Get("candidates.0.content").Raw)
	case wire.Interactions:
		body = fmt.Sprintf(`{"model":"m","input":[{"type":"user_input","content":"x"},%s,{"type":"function_result",`+
			`"call_id":%q,"result":"r"},{"type":"function_result","call_id":%q,"result":"r"}]}`,
			strings.Trim(a.Get("steps").Raw, "[]"), a.Get(`steps.#(name=="read").id`).Str, a.Get(`steps.#(name=="now").id`).Str)
	}
	if !json.Valid([]byte(body)) {
		t.Fatalf("not JSON: %s", body)
	}
	model := map[wire.Format]string{
		wire.Anthropic: "claude-opus-4-5", wire.OpenAIChat: "qwen",
		wire.OpenAIResponses: "gpt-5.2", wire.Gemini: "gemini-3-pro", wire.Interactions: "gemini-3-pro",
	}[upstream]
	out, err := translate.Convert(client, upstream, translate.Incoming{Body: []byte(body), Path: path},
		translate.Options{Official: upstream != wire.OpenAIChat, Model: func(string) string { return model }})
	if err != nil {
		t.Fatalf("%s to %s: %v\n%s", client, upstream, err, body)
	}
	sent := string(out.Body)
	want := []string{`"c2lnbmF0dXJl"`}
	switch upstream {
	case wire.Anthropic:
		want = append(want, `"thinking":"Hm \"so\"."`)
	case wire.OpenAIChat: // the format has no signature
		want = []string{`"reasoning_content":"Hm \"so\"."`}
	}
	for _, w := range want {
		if strings.Count(sent, w) != 1 {
			t.Errorf("%s to %s: %s stands there %d times:\n%s\nof\n%s", client, upstream, w, strings.Count(sent, w), sent, body)
		}
	}
	return works
}

func errorInStream(t *testing.T, client, upstream wire.Format) string {
	if client == upstream {
		return works
	}
	head, _, _ := strings.Cut(toolsSaid[upstream][0], "\n\n")
	fault := map[wire.Format]string{
		wire.Anthropic:  `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`,
		wire.OpenAIChat: `{"error":{"message":"Overloaded","type":"server_error"}}`,
		wire.OpenAIResponses: `{"type":"response.failed","response":{"id":"m1","status":"failed",` +
			`"error":{"code":"server_error","message":"Overloaded"}}}`,
		wire.Gemini:       `{"error":{"code":503,"message":"Overloaded","status":"UNAVAILABLE"}}`,
		wire.Interactions: `{"event_type":"error","error":{"code":"unavailable","message":"Overloaded"}}`,
	}[upstream]
	out, _ := run(upstream, client, translate.Answering{Stream: true}, []byte(head+"\n\n"+streamed(fault)))
	if turn := decoded(client, true, out); turn.ErrorMessage != "Overloaded" || turn.Done && client != wire.Gemini {
		t.Errorf("%s from %s: %+v of\n%s", client, upstream, turn, out)
	}
	return works
}

func tooLongPrompt(t *testing.T, client, upstream wire.Format) string {
	body := map[wire.Format]string{
		wire.Anthropic: `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: ` +
			`210000 tokens > 200000 maximum"}}`,
		wire.OpenAIChat: `{"error":{"code":400,"message":"the request exceeds the available context size",` +
			`"type":"exceed_context_size_error","n_prompt_tokens":210000,"n_ctx":200000}}`,
		wire.OpenAIResponses: `{"error":{"message":"This model's maximum context length is 200000 tokens. However, your ` +
			`messages resulted in 210000 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}`,
		wire.Gemini: `{"error":{"code":400,"message":"The input token count (210000) exceeds the maximum number ` +
			`of tokens allowed (200000).","status":"INVALID_ARGUMENT"}}`,
		wire.Interactions: `{"error":{"code":"invalid_request","message":"The input token count (210000) exceeds the ` +
			`maximum number of tokens allowed (200000)."}}`,
	}[upstream]
	status, out := translate.ReadFailure(upstream, 400, []byte(body)).Write(client)
	want := map[wire.Format]string{
		wire.Anthropic: "prompt is too long: 210000 tokens > 200000 maximum", wire.OpenAIChat: "context_length_exceeded",
		wire.OpenAIResponses: "context_length_exceeded", wire.Gemini: "(210000) exceeds the maximum number of tokens",
		wire.Interactions: "(210000) exceeds the maximum number of tokens",
	}[client]
	if status != 400 || !strings.Contains(string(out), want) {
		t.Errorf("%s from %s: %d %s", client, upstream, status, out)
	}
	return works + ", in the client's words"
}

func staysCut(t *testing.T, client, upstream wire.Format) string {
	all := toolsSaid[upstream][0]
	out, s := run(upstream, client, translate.Answering{Stream: true}, []byte(all[:len(all)*3/4]))
	if turn := decoded(client, true, out); turn.Done || s.Ended() || len(out) == 0 {
		t.Errorf("%s from %s: %+v of\n%s", client, upstream, turn, out)
	}
	return "stays cut"
}

func signOfLife(t *testing.T, client, upstream wire.Format) string {
	if client == upstream {
		return works
	}
	life := ": alive\n\n"
	if upstream == wire.Anthropic {
		life = streamed(`{"type":"ping"}`)
	}
	out, _ := run(upstream, client, translate.Answering{Stream: true}, []byte(life))
	switch {
	case client == wire.Gemini && len(out) == 0:
		return "left out, its clients know none"
	case client == wire.Gemini || len(out) == 0:
		t.Errorf("%s from %s: %q", client, upstream, out)
	}
	return works
}
