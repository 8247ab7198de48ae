// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openairesponses

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/openai"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// Rules implements [translate.Dialect].
func (Codec) Rules() translate.Rules {
	return translate.Rules{
		Params: [translate.ParamCount]string{
			translate.MaxTokens: "max_output_tokens", translate.Temperature: "temperature", translate.TopP: "top_p",
			translate.UserID: "user", translate.ServiceTier: "service_tier",
			translate.CacheKey: "prompt_cache_key", translate.Verbosity: "text.verbosity",
		},
		Reasoning: "reasoning.effort", Output: "text.format", Parallel: "parallel_tool_calls", Choice: "tool_choice",
		Strict: "tools[].strict", Thinking: "input[].encrypted_content", Marker: "input[].content[].prompt_cache_breakpoint",
		NameLimit: 64, IDLimit: 64, LongestID: 256, IDPrefix: "resp", NarrowsOfficial: true, LongestUser: 64, LeastTokens: 16,
		EndsThinking: true,
		Headers:      openai.Headers, Provider: "openai", Faults: openai.Faults,
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
	return &streamWriter{Buffer: out, Collected: translate.Collected{Flow: f}}
}

// AppendAnswer implements [translate.Dialect].
func (Codec) AppendAnswer(dst []byte, c *translate.Collected) []byte {
	return appendAnswer(dst, c, "")
}

// Holder implements [translate.Dialect].
func (c Codec) Holder(bool) translate.Holder {
	return translate.NewNumberedHolder(c, translate.NumberedHolder{
		Index: "output_index", Arguments: "delta",
		Sequence: "sequence_number",
	})
}

// Endpoint implements [translate.Dialect].
func (Codec) Endpoint(prefix, _ string, _ bool) (string, string) {
	return prefix + "/v1/responses", ""
}

// Prefix implements [translate.Dialect].
func (Codec) Prefix(path string) string {
	return translate.Before(path, "/v1/responses", "/responses")
}
