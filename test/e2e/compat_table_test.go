// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import "strings"

const (
	messagesTools = `"tools":[{"name":"get_weather","description":"Tells the weather.",` +
		`"input_schema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}},{"name":"get_time",` +
		`"input_schema":{"type":"object","properties":{}}}]`
	chatTools = `"tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object",` +
		`"properties":{"city":{"type":"string"}}}}},{"type":"function","function":{"name":"get_time"}}]`
	responsesTools = `"tools":[{"type":"function","name":"get_weather","parameters":{"type":"object",` +
		`"properties":{"city":{"type":"string"}}}},{"type":"function","name":"get_time","parameters":{"type":"object",` +
		`"properties":{}}}]`
	geminiTools = `"tools":[{"functionDeclarations":[{"name":"get_weather","parameters":{"type":"OBJECT",` +
		`"properties":{"city":{"type":"STRING"}}}},{"name":"get_time"}]}]`

	messagesCall = `{"role":"user","content":"Weather?"},{"role":"assistant","content":[{"type":"text","text":"One ` +
		`moment."},{"type":"tool_use","id":"toolu_1","name":"get_weather","input":{"city":"Bern"}}]}`
	chatCall = `{"role":"user","content":"Weather?"},{"role":"assistant","content":null,` +
		`"tool_calls":[{"id":"call_1","type":"function","function":{"name":"get_weather",` +
		`"arguments":"{\"city\":\"Bern\"}"}}]},{"role":"tool","tool_call_id":"call_1","content":"rain"}`
)

// turnsBefore returns a conversation with n answers, which determines the step of the script.
func turnsBefore(n int, user, assistant string) string {
	return strings.Repeat(user+","+assistant+",", n) + user
}

func messages(rest, list string) string {
	return `{"model":"claude-sonnet-4-5","max_tokens":5000,` + rest + `"messages":[` + list + `]}`
}

func chat(rest, list string) string {
	return `{"model":"gpt-5.4",` + rest + `"messages":[` + list + `]}`
}

func before(n int) string {
	return turnsBefore(n, `{"role":"user","content":"More?"}`, `{"role":"assistant","content":"No."}`)
}

// pixel is a picture.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="

const hello = `{"role":"user","content":"Hello"}`

var (
	messageWhole = []string{
		"id text", "type =message", "role =assistant", "content.#.type =[\"text\"]",
		"content.0.text text", "model text", "stop_reason =end_turn", "stop_sequence none", "usage.input_tokens some",
		"usage.cache_read_input_tokens some", "usage.output_tokens >0", "timings none",
	}
	messageCalls = []string{
		"stop_reason =tool_use", `content.#(type=="tool_use").id text`,
		`content.#(type=="tool_use").name =get_weather`, `content.#(type=="tool_use").input.city =Zürich "old"`,
		`content.#(type=="tool_use")#|# =2`,
	}
	chatWhole = []string{
		"id ^chatcmpl", "object =chat.completion", "created >0", "model text", "choices.# =1",
		"choices.0.index =0", "choices.0.message.role =assistant", "choices.0.message.content text",
		"choices.0.finish_reason =stop", "usage.prompt_tokens >0", "usage.completion_tokens >0", "usage.total_tokens >0",
	}
	chatCalls = []string{
		"choices.0.finish_reason =tool_calls", "choices.0.message.tool_calls.# =2",
		"choices.0.message.tool_calls.0.type =function", "choices.0.message.tool_calls.0.id text",
		"choices.0.message.tool_calls.0.function.name =get_weather",
		`choices.0.message.tool_calls.0.function.arguments|@fromstr|city =Zürich "old"`,
	}
)

// expectations are the requests of TestCompatibility.
var expectations = []expectation{
	// Messages
	{
		name: "messages: whole", of: "test_anthropic_messages_basic, test_anthropic_vs_openai_different_response_format",
		path: "/v1/messages", body: messages("", hello), want: messageWhole,
	},
	{
		name: "messages: system as a text", of: "test_anthropic_messages_with_system", path: "/v1/messages",
		body: messages(`"system":"Be short.",`, hello), want: messageWhole,
	},
	{
		name: "messages: system as blocks", path: "/v1/messages",
		body: messages(`"system":[{"type":"text","text":"Be short."},{"type":"text","text":"Be kind."}],`, hello),
		want: messageWhole,
	},
	{
		name: "messages: several parts", of: "test_anthropic_messages_multipart_content", path: "/v1/messages",
		body: messages("", `{"role":"user","content":[{"type":"text","text":"One"},{"type":"text","text":"Two"}]}`),
		want: messageWhole,
	},
	{
		name: "messages: several turns", of: "test_anthropic_messages_conversation", path: "/v1/messages",
		body: messages("", before(3)), want: messageWhole,
	},
	{
		name: "messages: sampling",
		of:   "test_anthropic_temperature, test_anthropic_top_k, test_anthropic_stop_sequences, test_anthropic_metadata",
		path: "/v1/messages",
		body: messages(`"temperature":0.5,"top_k":40,"stop_sequences":["\n\nEND"],"metadata":{"user_id":"u"},`, hello),
		want: messageWhole,
	},
	{
		name: "messages: stream", of: "test_anthropic_messages_streaming", path: "/v1/messages",
		body: messages(`"stream":true,`, hello), want: []string{
			"message.id text", "message.model text",
			"delta.stop_reason =end_turn", "delta.stop_sequence none",
		}, stream: messagesStream("text"),
	},
	{
		name: "messages: calls", of: "test_anthropic_tool_use_basic", path: "/v1/messages",
		body: messages(messagesTools+",", hello), want: messageCalls,
	},
	{
		name: "messages: stream of calls",
		of:   "test_anthropic_tool_streaming, test_anthropic_streaming_content_block_indices", path: "/v1/messages",
		body: messages(`"stream":true,`+messagesTools+",", hello), want: []string{"delta.stop_reason =tool_use"},
		stream: messagesStream("text", "tool_use", "tool_use"),
	},
	{
		name: "messages: thinking in a stream", of: "test_anthropic_thinking_with_reasoning_model", path: "/v1/messages",
		body: messages(`"stream":true,"thinking":{"type":"enabled","budget_tokens":1024},`+messagesTools+",", hello),
		want: []string{"delta.stop_reason =tool_use"}, stream: messagesStream("thinking", "text", "tool_use", "tool_use"),
	},
	{
		name: "messages: a call is needed", path: "/v1/messages",
		body: messages(`"tool_choice":{"type":"any"},`+messagesTools+",", hello), want: messageCalls,
	},
	{
		name: "messages: this call is needed", path: "/v1/messages",
		body: messages(`"tool_choice":{"type":"tool","name":"get_weather"},`+messagesTools+",", hello), want: messageCalls,
	},
	{
		name: "messages: one call", path: "/v1/messages",
		body: messages(`"tool_choice":{"type":"auto","disable_parallel_tool_use":true},`+messagesTools+",", hello),
		want: messageCalls,
	},
	{
		name: "messages: result", of: "test_anthropic_tool_result", path: "/v1/messages",
		body: messages(messagesTools+",", messagesCall+
			`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"rain"}]}`),
		want: []string{"content.0.text =It rains.", "stop_reason =end_turn"},
	},
	{
		name: "messages: result as blocks, with a text", path: "/v1/messages",
		body: messages(messagesTools+",", messagesCall+
			`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text",`+
			`"text":"rain"}]},{"type":"text","text":"Well?"}]}`), want: []string{"content.0.text =It rains."},
	},
	{
		name: "messages: failed result", of: "test_anthropic_tool_result_error", path: "/v1/messages",
		body: messages(messagesTools+",", messagesCall+
			`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","is_error":true,"content":"no such `+
			`city"}]}`), want: []string{"content.0.text =It rains."},
	},
	{
		name: "messages: result of nothing", path: "/v1/messages",
		body: messages(messagesTools+",", messagesCall+
			`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1"}]}`),
		want: []string{"content.0.text =It rains."},
	},
	{
		name: "messages: no messages", of: "test_anthropic_missing_messages", path: "/v1/messages",
		body: `{"model":"claude-sonnet-4-5","max_tokens":10}`, status: 400,
		want: []string{"type =error", "error.type =invalid_request_error", "error.message text"},
	},
	{
		name: "messages: no JSON", path: "/v1/messages", body: `{"model":`, status: 400, only: "anthropic",
		want: []string{"type =error", "error.type =invalid_request_error", "error.message text"},
	},
	{
		name: "messages: too many requests", path: "/v1/messages", body: messages(messagesTools+",", before(2)), status: 429,
		want: []string{"type =error", "error.type =rate_limit_error", "error.message text"},
	},
	{name: "messages: server error, streamed", path: "/v1/messages", body: messages(`"stream":true,`+messagesTools+",",
		before(3)), status: 500, want: []string{"type =error", "error.type =api_error", "error.message text"}},
	{
		name: "messages: no key", path: "/v1/messages", body: messages(messagesTools+",", before(4)), status: 401,
		want: []string{"type =error", "error.type =authentication_error", "error.message text"},
	},
	{
		name: "messages: nucleus", of: "test_anthropic_top_p", path: "/v1/messages", body: messages(`"top_p":0.9,`, hello),
		want: messageWhole,
	},
	{
		name: "messages: image", of: "test_anthropic_vision_base64_with_multimodal_model", path: "/v1/messages",
		body: messages("",
			`{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"`+pixel+
				`"}},{"type":"text","text":"What is this?"}]}`), want: messageWhole,
	},
	{
		name: "messages: thinking", of: "test_anthropic_thinking, test_anthropic_thinking_with_reasoning_model",
		path: "/v1/messages", body: messages(`"thinking":{"type":"enabled","budget_tokens":1024},`+messagesTools+",", hello),
		want: []string{
			"content.0.type =thinking", "content.0.thinking text", "content.0.signature some",
			"content.1.type =text", "content.1.text text",
		},
	},
	{
		name: "messages: text, then a result", of: "test_anthropic_tool_result_with_text", path: "/v1/messages",
		only: "openai_chat openai_responses gemini",
		body: messages(messagesTools+",", messagesCall+
			`,{"role":"user","content":[{"type":"text","text":"Here it is:"},{"type":"tool_result","tool_use_id":"toolu_1",`+
			`"content":"rain"}]}`), want: []string{"content.0.text =It rains."},
	},
	{
		name: "messages: cut off", of: "test_anthropic_messages_basic", path: "/v1/messages",
		body: messages(messagesTools+",", before(5)), want: []string{
			"content.0.text =It rains and",
			"stop_reason =max_tokens",
		},
	},
	{name: "messages: stream, cut off", path: "/v1/messages", body: messages(`"stream":true,`+messagesTools+",",
		before(5)), want: []string{"delta.stop_reason =max_tokens"}, stream: messagesStream("text")},
	{
		name: "messages: usage at the beginning", of: "test_anthropic_messages_streaming", path: "/v1/messages",
		only: "anthropic", body: messages(`"stream":true,`, hello), want: []string{"message.usage.input_tokens >0"},
		stream: messagesStream("text"),
	},
	{
		name: "messages: usage at the end", path: "/v1/messages", only: "openai_chat openai_responses gemini",
		body: messages(`"stream":true,`, hello), want: []string{
			"usage.input_tokens >0", "usage.cache_read_input_tokens some",
			"usage.output_tokens >0",
		}, stream: messagesStream("text"),
	},
	{
		name: "messages: count",
		of: "test_anthropic_count_tokens, test_anthropic_count_tokens_with_system, " +
			"test_anthropic_count_tokens_no_max_tokens",
		path: "/v1/messages/count_tokens", body: `{"model":"claude-sonnet-4-5","system":"Be short.","messages":[` + hello +
			`]}`, only: "anthropic", want: []string{"input_tokens >0", "content none", "usage none"},
	},
	{
		name: "messages: our own count", path: "/v1/messages/count_tokens",
		body: `{"model":"claude-sonnet-4-5","messages":[` + hello + `]}`, only: "openai_chat openai_responses gemini",
		want: []string{"input_tokens >0", "content none", "usage none"},
	},

	// Chat completions
	{
		name: "chat: whole", of: "test_chat_completion, test_anthropic_vs_openai_different_response_format",
		path: "/v1/chat/completions", body: chat("", hello), want: chatWhole,
	},
	{
		name: "chat: system and developer", path: "/v1/chat/completions",
		body: chat("",
			`{"role":"system","content":"Be short."},{"role":"developer","content":[{"type":"text","text":"Be kind."}]},`+hello),
		want: chatWhole,
	},
	{
		name: "chat: content as parts", of: "test_chat_completion", path: "/v1/chat/completions",
		body: chat("", `{"role":"user","content":[{"type":"text","text":"One"},{"type":"text","text":"Two"}]}`),
		want: chatWhole,
	},
	{
		name: "chat: max_tokens", of: "test_chat_completion_with_openai_library", path: "/v1/chat/completions",
		body: chat(`"max_tokens":50,"temperature":0.5,"seed":42,"stop":"END",`, hello), want: chatWhole,
	},
	{
		name: "chat: max_completion_tokens", path: "/v1/chat/completions", body: chat(`"max_completion_tokens":50,`, hello),
		want: chatWhole,
	},
	{
		name: "chat: JSON schema", of: "test_completion_with_response_format", path: "/v1/chat/completions",
		body: chat(`"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"object",`+
			`"properties":{"b":{"type":"string"}},"required":["b"],"additionalProperties":false}}},`, hello), want: chatWhole,
	},
	{
		name: "chat: stream", of: "test_chat_completion_stream", path: "/v1/chat/completions",
		body: chat(`"stream":true,`, hello), stream: chatStream("stop", 0, false),
	},
	{
		name: "chat: stream with usage", of: "test_chat_completion_stream", path: "/v1/chat/completions",
		body: chat(`"stream":true,"stream_options":{"include_usage":true},`, hello),
		want: []string{"usage.prompt_tokens >0", "usage.completion_tokens >0"}, stream: chatStream("stop", 0, true),
	},
	{
		name: "chat: calls", of: "test_weather, test_completion_with_required_tool_real_model", path: "/v1/chat/completions",
		body: chat(chatTools+",", hello), want: chatCalls,
	},
	{
		name: "chat: stream of calls", of: "test_weather, test_hello_world", path: "/v1/chat/completions",
		body:   chat(`"stream":true,"stream_options":{"include_usage":true},`+chatTools+",", hello),
		stream: chatStream("tool_calls", 2, true),
	},
	{
		name: "chat: a call is needed", of: "test_completion_with_required_tool_real_model", path: "/v1/chat/completions",
		body: chat(`"tool_choice":"required",`+chatTools+",", hello), want: chatCalls,
	},
	{
		name: "chat: this call is needed", path: "/v1/chat/completions",
		body: chat(`"tool_choice":{"type":"function","function":{"name":"get_weather"}},`+chatTools+",", hello),
		want: chatCalls,
	},
	{
		name: "chat: result", of: "test_calc_result", path: "/v1/chat/completions", body: chat(chatTools+",", chatCall),
		want: []string{
			"choices.0.message.content =It rains.", "choices.0.message.tool_calls none",
			"choices.0.finish_reason =stop",
		},
	},
	{
		name: "chat: log probabilities", of: "test_logprobs (which a server of chat completions can do)",
		path: "/v1/chat/completions", body: chat(`"logprobs":true,"top_logprobs":2,`, hello),
		only: "anthropic openai_responses gemini", status: 400,
		want: []string{"error.message text", "error.type =invalid_request_error"},
	},
	{
		name: "chat: several answers",
		of:   "test_chat_completions_multiple_choices (which a server of chat completions can do)",
		path: "/v1/chat/completions", body: chat(`"n":2,`, hello), only: "anthropic openai_responses gemini", status: 400,
		want: []string{"error.message text", "error.type =invalid_request_error"},
	},
	{
		name: "chat: no messages", of: "test_invalid_chat_completion_req", path: "/v1/chat/completions",
		body: `{"model":"gpt-5.4","messages":[]}`, status: 400,
		want: []string{"error.message text", "error.type =invalid_request_error"},
	},
	{
		name: "chat: image", of: "test_vision_chat_completion", path: "/v1/chat/completions",
		body: chat("",
			`{"role":"user","content":[{"type":"text","text":"What is this?"},{"type":"image_url",`+
				`"image_url":{"url":"data:image/png;base64,`+pixel+`"}}]}`), want: chatWhole,
	},
	{
		name: "chat: no tools, by null", of: "test_completion_without_tool_call_fast", path: "/v1/chat/completions",
		body: chat(`"tools":null,"tool_choice":null,`, hello), want: append([]string{"choices.0.message.tool_calls none"},
			chatWhole...),
	},
	{
		name: "chat: no tools, by an empty list", of: "test_completion_without_tool_call_fast", path: "/v1/chat/completions",
		body: chat(`"tools":[],`, hello), want: append([]string{"choices.0.message.tool_calls none"}, chatWhole...),
	},
	{
		name: "chat: result with a name", of: "test_calc_result", path: "/v1/chat/completions",
		body: chat(chatTools+",", strings.Replace(chatCall, `"role":"tool",`, `"role":"tool","name":"get_weather",`, 1)),
		want: []string{"choices.0.message.content =It rains.", "choices.0.message.tool_calls none"},
	},
	{
		name: "chat: cut off", of: "test_chat_completion", path: "/v1/chat/completions", body: chat(chatTools+",", before(5)),
		want: []string{"choices.0.message.content =It rains and", "choices.0.finish_reason =length"},
	},
	{
		name: "chat: stream, cut off", of: "test_chat_completion_stream", path: "/v1/chat/completions",
		body: chat(`"stream":true,`+chatTools+",", before(5)), stream: chatStream("length", 0, false),
	},
	{
		name: "chat: thinking", of: "test_thoughts", path: "/v1/chat/completions", only: "anthropic openai_chat gemini",
		body: chat(`"reasoning_effort":"high",`+chatTools+",", hello),
		want: []string{"choices.0.message.reasoning_content text", "choices.0.message.content text"},
	},
	{
		name: "chat: JSON without a schema", of: "test_completion_with_response_format", path: "/v1/chat/completions",
		body: chat(`"response_format":{"type":"json_object"},`, `{"role":"user","content":"JSON, please"}`), want: chatWhole,
	},
	{
		name: "chat: a format that there is not", of: "test_completion_with_response_format", path: "/v1/chat/completions",
		only: "anthropic openai_responses gemini", body: chat(`"response_format":{"type":"sound"},`, hello), status: 400,
		want: []string{"error.message text"},
	},
	{
		name: "chat: messages that are nothing", of: "test_invalid_chat_completion_req", path: "/v1/chat/completions",
		only: "anthropic openai_responses gemini", body: `{"model":"gpt-5.4","messages":null}`, status: 400,
		want: []string{"error.message text", "error.type =invalid_request_error"},
	},
	{
		name: "chat: messages that are a text", of: "test_invalid_chat_completion_req", path: "/v1/chat/completions",
		only: "anthropic openai_responses gemini", body: `{"model":"gpt-5.4","messages":"string"}`, status: 400,
		want: []string{"error.message text", "error.type =invalid_request_error"},
	},
	{
		name: "chat: messages that are a number", of: "test_invalid_chat_completion_req", path: "/v1/chat/completions",
		only: "anthropic openai_responses gemini", body: `{"model":"gpt-5.4","messages":[123]}`, status: 400,
		want: []string{"error.message text", "error.type =invalid_request_error"},
	},
	{
		name: "chat: messages that are an empty object", of: "test_invalid_chat_completion_req", path: "/v1/chat/completions",
		only: "anthropic openai_responses gemini", body: `{"model":"gpt-5.4","messages":[{}]}`, status: 400,
		want: []string{"error.message text", "error.type =invalid_request_error"},
	},
	{
		name: "chat: messages that are a number for a role", of: "test_invalid_chat_completion_req",
		path: "/v1/chat/completions", only: "anthropic openai_responses gemini",
		body: `{"model":"gpt-5.4","messages":[{"role":123}]}`, status: 400,
		want: []string{"error.message text", "error.type =invalid_request_error"},
	},
	{
		name: "chat: messages that are a number for a text", of: "test_invalid_chat_completion_req",
		path: "/v1/chat/completions", only: "anthropic openai_responses gemini",
		body: `{"model":"gpt-5.4","messages":[{"role":"system","content":123}]}`, status: 400,
		want: []string{"error.message text", "error.type =invalid_request_error"},
	},
	{
		name: "chat: messages that are an empty object at the end", of: "test_invalid_chat_completion_req",
		path: "/v1/chat/completions", only: "anthropic openai_responses gemini",
		body: `{"model":"gpt-5.4","messages":[{"role":"system","content":"test"},{}]}`, status: 400,
		want: []string{"error.message text", "error.type =invalid_request_error"},
	},
	{
		name: "chat: too many requests", path: "/v1/chat/completions", body: chat(chatTools+",", before(2)), status: 429,
		want: []string{"error.message text", "error.type text"},
	},
	{
		name: "chat: server error, streamed", path: "/v1/chat/completions",
		body: chat(`"stream":true,`+chatTools+",", before(3)), status: 500,
		want: []string{"error.message text", "error.type text"},
	},
	{
		name: "chat: no key", path: "/v1/chat/completions", body: chat(chatTools+",", before(4)), status: 401,
		want: []string{"error.message text", "error.type text"},
	},

	// Responses
	{
		name: "responses: whole", of: "test_responses_with_openai_library", path: "/v1/responses",
		body: `{"model":"gpt-5.4","input":"Hello"}`, want: []string{
			"id text", "object =response", "status =completed",
			"model text", `output.#(type=="message").role =assistant`, `output.#(type=="message").content.0.type =output_text`,
			`output.#(type=="message").content.0.text text`, "usage.input_tokens >0", "usage.output_tokens >0",
			"usage.total_tokens >0",
		},
	},
	{
		name: "responses: instructions and items", path: "/v1/responses",
		body: `{"model":"gpt-5.4","instructions":"Be short.","input":[{"role":"developer","content":"Be kind."},` +
			`{"role":"user","content":[{"type":"input_text","text":"Hello"}]}]}`,
		want: []string{"status =completed", `output.#(type=="message").content.0.text text`},
	},
	{
		name: "responses: stream", of: "test_responses_stream_with_openai_library", path: "/v1/responses",
		body: `{"model":"gpt-5.4","stream":true,"input":"Hello"}`, want: []string{
			"response.status =completed",
			"response.usage.output_tokens >0",
		}, stream: responsesStream("message"),
	},
	{
		name: "responses: calls", path: "/v1/responses", body: `{"model":"gpt-5.4",` + responsesTools + `,"input":"Hello"}`,
		want: []string{
			`output.#(type=="function_call").name =get_weather`, `output.#(type=="function_call").call_id text`,
			`output.#(type=="function_call").arguments|@fromstr|city =Zürich "old"`, `output.#(type=="function_call")#|# =2`,
		},
	},
	{name: "responses: stream of calls", path: "/v1/responses", body: `{"model":"gpt-5.4","stream":true,` +
		responsesTools + `,"input":"Hello"}`, stream: responsesStream("reasoning", "message", "function_call",
		"function_call")},
	{
		name: "responses: result", path: "/v1/responses", body: `{"model":"gpt-5.4",` + responsesTools +
			`,"input":[{"role":"user","content":"Weather?"},{"type":"function_call","call_id":"call_1","name":"get_weather",` +
			`"arguments":"{}"},{"type":"function_call_output","call_id":"call_1","output":"rain"}]}`,
		want: []string{`output.#(type=="message").content.0.text =It rains.`},
	},
	{
		name: "responses: JSON schema", of: "test_responses_with_text_format", path: "/v1/responses",
		body: `{"model":"gpt-5.4","input":"Hello","max_output_tokens":500,"text":{"format":{"type":"json_schema",` +
			`"name":"test","schema":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],` +
			`"additionalProperties":false}}}}`, want: []string{"status =completed"},
	},
	{
		name: "responses: text", of: "test_responses_with_text_format", path: "/v1/responses",
		body: `{"model":"gpt-5.4","input":"Hello","text":{"format":{"type":"text"}}}`, want: []string{"status =completed"},
	},
	{
		name: "responses: JSON schema without a schema", of: "test_responses_with_text_format", path: "/v1/responses",
		only: "anthropic openai_chat gemini",
		body: `{"model":"gpt-5.4","input":"Hello","text":{"format":{"type":"json_schema","name":"test"}}}`, status: 400,
		want: []string{"error.message text"},
	},
	{
		name: "responses: ids", of: "test_responses_with_openai_library", path: "/v1/responses",
		body: `{"model":"gpt-5.4","input":[{"role":"system","content":"Be short."},{"role":"user","content":"Hello"}]}`,
		want: []string{"id ^resp_", `output.#(type=="message").id ^msg_`},
	},
	{
		name: "responses: ids in a stream", of: "test_responses_stream_with_openai_library", path: "/v1/responses",
		body: `{"model":"gpt-5.4","stream":true,"input":"Hello"}`, want: []string{
			"response.id ^resp_", "item.id ^msg_",
			"item_id ^msg_",
		}, stream: responsesStream("message"),
	},
	{name: "responses: cut off", path: "/v1/responses", body: `{"model":"gpt-5.4",` + responsesTools + `,"input":[` +
		before(5) + `]}`, want: []string{"status =incomplete", "incomplete_details.reason =max_output_tokens"}},
	{name: "responses: server error", path: "/v1/responses", body: `{"model":"gpt-5.4",` + responsesTools + `,"input":[` +
		before(3) + `]}`, status: 500, want: []string{"error.message text", "error.type text"}},

	// Gemini
	{
		name: "gemini: whole", path: "/v1beta/models/gemini-3.1-pro-preview:generateContent",
		body: `{"systemInstruction":{"parts":[{"text":"Be short."}]},"contents":[{"role":"user","parts":[{"text":"Hello"}]}]}`, want: []string{"candidates.0.content.role =model", "candidates.0.content.parts.0.text text", "candidates.0.finishReason =STOP", "usageMetadata.promptTokenCount >0", "usageMetadata.totalTokenCount >0"},
	},
	{
		name: "gemini: stream", path: "/v1beta/models/gemini-3.1-pro-preview:streamGenerateContent?alt=sse",
		body: `{"contents":[{"role":"user","parts":[{"text":"Hello"}]}]}`, want: []string{
			"candidates.0.finishReason =STOP",
			"usageMetadata.candidatesTokenCount >0",
		}, stream: geminiStream,
	},
	{
		name: "gemini: calls", path: "/v1beta/models/gemini-3.1-pro-preview:generateContent", body: `{` + geminiTools +
			`,"contents":[{"role":"user","parts":[{"text":"Hello"}]}]}`,
		want: []string{
			"candidates.0.content.parts.#.functionCall.name =[\"get_weather\",\"get_time\"]",
			"candidates.0.content.parts.#.functionCall|0.args.city =Zürich \"old\"", "candidates.0.finishReason =STOP",
		},
	},
	{
		name: "gemini: stream of calls", path: "/v1beta/models/gemini-3.1-pro-preview:streamGenerateContent?alt=sse",
		body: `{` + geminiTools + `,"contents":[{"role":"user","parts":[{"text":"Hello"}]}]}`,
		want: []string{"candidates.0.finishReason =STOP"}, stream: geminiStream,
	},
	{
		name: "gemini: too many requests", path: "/v1beta/models/gemini-3.1-pro-preview:generateContent",
		body: `{` + geminiTools + `,"contents":[` + turnsBefore(2, `{"role":"user","parts":[{"text":"More?"}]}`,
			`{"role":"model","parts":[{"text":"No."}]}`) + `]}`, status: 429,
		want: []string{"error.code =429", "error.status =RESOURCE_EXHAUSTED", "error.message text"},
	},
}
