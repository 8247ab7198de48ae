// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// TestTooLong: Messages clients read from an error whether the prompt is too long, and compact it,
// or only the requested answer, and request less. All servers' messages, with any status, become
// these texts.
func TestTooLong(t *testing.T) {
	const (
		unknown = "prompt is too long: "
		asked   = "input length and `max_tokens` exceed context limit: "
		advice  = ", decrease input length or `max_tokens` and try again"
	)
	for _, c := range []struct {
		server, message string
		status          int
		want            string // "" for other errors
	}{
		{
			"LM Studio",
			"The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 13055>= n_ctx: " +
				"4096). Try to load the model with a larger context length, or provide a shorter input.", 400,
			"prompt is too long: 13055 tokens > 4096 maximum",
		},
		{
			"oMLX", "Prompt too long: 70000 tokens exceeds max context window of 65536 tokens", 400,
			"prompt is too long: 70000 tokens > 65536 maximum",
		},
		{
			"SGLang", "The input (410089 tokens) is longer than the model's context length (409600 tokens).", 400,
			"prompt is too long: 410089 tokens > 409600 maximum",
		},
		{
			"SGLang, both",
			"Requested token count exceeds the model's maximum context length of 131072 tokens. You requested a total of " +
				"132000 tokens: 100000 tokens from the input messages and 32000 tokens for the completion.", 400,
			asked + "100000 + 32000 > 131072" + advice,
		},
		{
			"SGLang, hardly any room",
			"Requested token count exceeds the model's maximum context length of 131072 tokens. You requested a total of " +
				"163000 tokens: 131000 tokens from the input messages and 32000 tokens for the completion.", 400,
			"prompt is too long: 163000 tokens > 131072 maximum",
		},
		{
			"vLLM",
			"You passed 40001 input tokens and requested 0 output tokens. However, the model's context length is only 32768 " +
				"tokens, resulting in a maximum input length of 32768 tokens.", 400,
			"prompt is too long: 40001 tokens > 32768 maximum",
		},
		{
			"vLLM, both",
			"'max_tokens' or 'max_completion_tokens' is too large: 64000. This model's maximum context length is 32768 " +
				"tokens and your request has 17459 input tokens (64000 > 32768 - 17459). (parameter=max_tokens, value=64000)", 400,
			asked + "17459 + 64000 > 32768" + advice,
		},
		{
			"newer vLLM",
			"This model's maximum context length is 32768 tokens. However, you requested 0 output tokens and your prompt " +
				"contains at least 32769 input tokens, for a total of at least 32769 tokens. Please reduce the length of the " +
				"input prompt or the number of requested output tokens. (parameter=input_tokens, value=32769)", 400,
			"prompt is too long: 32769 tokens > 32768 maximum",
		},
		{
			"older vLLM, both",
			"This model's maximum context length is 8192 tokens. However, you requested 9100 tokens (3100 in the messages, " +
				"6000 in the completion). Please reduce the length of the messages or completion.", 400,
			asked + "3100 + 6000 > 8192" + advice,
		},
		{
			"OpenAI",
			"This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens. Please " +
				"reduce the length of the messages.", 400, "prompt is too long: 130000 tokens > 128000 maximum",
		},
		{
			"llama.cpp",
			"the request exceeds the available context size. try increasing the context size or enable context shift", 400,
			unknown + "the request exceeds the available context size. try increasing the context size or enable context shift",
		},
		{"llama.cpp, amid the answer", "Context size has been exceeded.", 500, unknown + "Context size has been exceeded."},
		{"ik_llama.cpp", "context shift is disabled", 500, unknown + "context shift is disabled"},
		{
			"a number of something else", "max_tokens is too large: 64000. This model supports at most 32768 completion tokens",
			400, "",
		},
		{"a fault of the server", "the model runner has stopped, its context length is 4096", 500, ""},
	} {
		body := translate.ReadFailure(wire.OpenAIChat, c.status,
			[]byte(`{"error":{"message":`+string(quote(c.message))+`,"type":"BadRequestError","code":400}}`))
		want, status := c.want, 400
		if want == "" {
			want, status = c.message, c.status
		}
		got, out := body.Write(wire.Anthropic)
		if text := gjson.GetBytes(out, "error.message").Str; text != want || got != status {
			t.Errorf("%s: got %d %q, want %d %q", c.server, got, text, status, want)
		}
	}
}

func quote(s string) []byte { return gjson.AppendJSONString(nil, s) }
