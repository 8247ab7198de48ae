// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openaichat

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/openai"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// Rules implements [translate.Dialect].
func (Codec) Rules() translate.Rules {
	return translate.Rules{
		Images: true,
		Params: [translate.ParamCount]string{
			translate.MaxTokens: "max_completion_tokens", translate.Temperature: "temperature", translate.TopP: "top_p",
			translate.Seed: "seed", translate.PresencePenalty: "presence_penalty",
			translate.FrequencyPenalty: "frequency_penalty", translate.UserID: "user", translate.ServiceTier: "service_tier",
			translate.CacheKey: "prompt_cache_key", translate.Verbosity: "verbosity",
		},
		Reasoning: "reasoning_effort", Output: "response_format", Parallel: "parallel_tool_calls", Choice: "tool_choice",
		Strict: "tools[].function.strict", Thinking: "messages[].reasoning_content",
		MarkerInSystem: "messages[].content[].cache_control",
		NameLimit:      64, IDLimit: 40, IDPrefix: "chatcmpl", NarrowsOfficial: true, MaxUser: 64,
		Headers: openai.Headers, Provider: "openai", Faults: openai.Faults,
	}
}

// ReadRequest implements [translate.Dialect].
func (Codec) ReadRequest(r *translate.Reader, body rawjson.Value, _ translate.Incoming) error {
	return reader{openai.Reader{Reader: r}}.request(body)
}

// WriteRequest implements [translate.Dialect].
func (Codec) WriteRequest(w *translate.Writer) error {
	return writer{openai.Writer{Writer: w}}.request()
}

// AnswerWriter implements [translate.Dialect].
func (Codec) AnswerWriter(f *translate.Flow, out *translate.Buffer) translate.AnswerWriter {
	return &streamWriter{Buffer: out, flow: f}
}

// AppendAnswer implements [translate.Dialect].
func (Codec) AppendAnswer(dst []byte, c *translate.Collected) []byte { return appendAnswer(dst, c) }

// CallBuffer implements [translate.Dialect].
func (Codec) CallBuffer(joined bool) translate.CallBuffer { return &callBuffer{joined: joined} }

// Endpoint implements [translate.Dialect].
func (Codec) Endpoint(prefix, _ string, _ bool) (string, string) {
	return prefix + "/v1/chat/completions", ""
}

// Prefix implements [translate.Dialect].
func (Codec) Prefix(path string) string {
	return translate.Before(path, "/v1/chat/completions", "/chat/completions")
}
