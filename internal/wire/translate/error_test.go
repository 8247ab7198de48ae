// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// TestTooLong: each server's words for a prompt that does not fit become the words on which clients compact.
func TestTooLong(t *testing.T) {
	const unknown = "prompt is too long: " // and the server's words
	both := func(n, m string) string { return "prompt is too long: " + n + " tokens > " + m + " maximum" }
	for _, tt := range []struct {
		server       string
		status       int
		code         string
		message, own string // own: as it is told in the Messages API
	}{
		{"Alibaba", 400, "invalid_parameter_error", "Range of input length should be [1, 30720]", unknown},
		{"Anthropic", 400, "", "prompt is too long: 210534 tokens > 200000 maximum", both("210534", "200000")},
		{
			"Anthropic, with a number out of range", 400, "", "prompt is too long: 99999999999999999999 tokens > 200000 maximum",
			unknown,
		},
		{"Bedrock", 400, "", "Input is too long for requested model.", unknown},
		{
			"Cerebras", 400, "", "Please reduce the length of the messages or completion. Current length is 8204 while limit is 8192",
			both("8204", "8192"),
		},
		{
			"Cohere", 400, "", "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292. Try using " +
				"a shorter prompt.", both("4292", "4081"),
		},
		{
			"DS4", 400, "", "Prompt has 300,000 tokens, but the configured context size is 131,072 tokens",
			both("300000", "131072"),
		},
		{"Fireworks", 400, "", "The prompt is too long: 200000, model maximum context length: 131071", both("200000", "131071")},
		{
			"Gemini", 400, "", "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
			both("1196265", "1048575"),
		},
		{
			"GitHub Copilot", 400, "model_max_prompt_tokens_exceeded", "prompt token count of 128135 exceeds the limit of 128000",
			both("128135", "128000"),
		},
		{"Groq", 400, "", "Please reduce the length of the messages or completion.", unknown},
		{"LiteLLM", 400, "", "Input exceeds maximum context length of 8192 tokens.", unknown},
		{"llama.cpp", 400, "", "request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it", both("9000", "4096")},
		{
			"LM Studio", 400, "", "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with " +
				"context length of only 4096 tokens, which is not enough.", both("9000", "4096"),
		},
		{"MiniMax", 400, "", "invalid params, context window exceeds limit (2013)", unknown},
		{
			"Mistral", 400, "3051", "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context " +
				"length", both("40000", "32768"),
		},
		{"Moonshot", 400, "", "Invalid request: Your request exceeded model token limit: 8192 (requested: 9000)", both("9000", "8192")},
		{"Ollama", 500, "", "the input length exceeds the context length", unknown},
		{"Ollama's cloud", 400, "", "prompt too long; exceeded max context length by 4096 tokens", unknown},
		{"oMLX", 400, "", "Prompt too long: 70000 tokens exceeds max context window of 65536 tokens", both("70000", "65536")},
		{"OpenAI", 400, "context_length_exceeded", "Your input exceeds the context window of this model.", unknown},
		{
			"OpenRouter", 400, "", "This endpoint's maximum context length is 32768 tokens. However, you requested about 50000 tokens " +
				"(49000 of text input, 1000 in the output).", both("49000", "32768"),
		},
		{
			"SGLang", 400, "", "Input length (265330) exceeds model's maximum context length (262144).",
			both("265330", "262144"),
		},
		{
			"SGLang, with the answer", 400, "", "Requested token count exceeds the model's maximum context length of 131072 tokens. You " +
				"requested a total of 163000 tokens: 131000 tokens from the input messages and 32000 tokens for the completion.",
			both("163000", "131072"),
		},
		{"TabbyAPI", 400, "", "Prompt length 9000 is greater than max_seq_len 4096", both("9000", "4096")},
		{
			"TensorRT-LLM", 400, "", "The sum of prompt length (9000.0), query length (0) should not exceed max_num_tokens (8192)",
			both("9000", "8192"),
		},
		{
			"Text Generation Inference", 422, "", "Input validation error: `inputs` must have less than 4095 tokens. Given: 5000",
			both("5000", "4095"),
		},
		{
			"Together", 400, "", "The input (300 tokens) is longer than the model's context length (200 tokens).",
			both("300", "200"),
		},
		{
			"vLLM", 400, "", "This model's maximum context length is 4096 tokens. However, your request has 5000 input tokens.",
			both("5000", "4096"),
		},
		{
			"xAI", 400, "", "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
			both("537812", "131072"),
		},
		{"Z.ai", 400, "1261", "Prompt exceeds max length", unknown},
		{"another length", 400, "", "string too long. Expected a string with maximum length 64, got 90", ""},
		{"an image", 400, "", "image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes", ""},
		{"a rate", 429, "", "Rate limit reached: maximum context length is 8192 tokens a minute", ""},
		{"an overload", 503, "", "Service unavailable: prompt is too long for now", ""},
	} {
		t.Run(tt.server, func(t *testing.T) {
			f := translate.Failure{Status: tt.status, Code: tt.code, Message: tt.message}
			words := f.In(wire.Anthropic)
			want := tt.own
			if want == "" || want == unknown {
				want += tt.message
			}
			if tt.own != "" && (words.Status != 400 || f.In(wire.OpenAIResponses).Code != "context_length_exceeded") {
				t.Errorf("got %+v, and %+v for Responses, want a prompt that is too long", words, f.In(wire.OpenAIResponses))
			}
			if got := f.Text(wire.Anthropic); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
