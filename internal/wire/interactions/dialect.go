// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package interactions

import (
	"net/http"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/gemini"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// Rules implements [translate.Dialect]. This package reads and writes the steps of the API revision in
// Version.
func (Codec) Rules() translate.Rules {
	return translate.Rules{
		Images: true,
		Params: [translate.ParamCount]string{
			translate.MaxTokens: "generation_config.max_output_tokens", translate.Temperature: "generation_config.temperature",
			translate.TopP: "generation_config.top_p",
			translate.Seed: "generation_config.seed", translate.ServiceTier: "service_tier",
		},
		Reasoning: "generation_config.thinking_level", Output: "response_format", Choice: "generation_config.tool_choice",
		Failed: "input[].is_error", Thinking: "input[].signature",
		NameLimit: 64, Dots: true, IDPrefix: "v1", Narrows: true, FoldsSystem: true,
		Headers: []string{"x-goog-", "api-revision"}, Version: [2]string{"Api-Revision", "2026-05-20"}, Faults: faults,
	}
}

// faults are the statuses and codes of the API's errors. Only invalid_request has been observed; the
// other codes are the names of Google's RPC statuses.
var faults = map[translate.Fault]translate.Words{
	translate.FaultInvalid:        {Status: http.StatusBadRequest, Code: "invalid_request"},
	translate.FaultAuthentication: {Status: http.StatusUnauthorized, Code: "unauthenticated"},
	translate.FaultBilling:        {Status: http.StatusTooManyRequests, Code: "too_many_requests"},
	translate.FaultPermission:     {Status: http.StatusForbidden, Code: "permission_denied"},
	translate.FaultNotFound:       {Status: http.StatusNotFound, Code: "not_found"},
	translate.FaultConflict:       {Status: http.StatusConflict, Code: "aborted"},
	translate.FaultTooLarge:       {Status: http.StatusRequestEntityTooLarge, Code: "invalid_request"},
	translate.FaultRate:           {Status: http.StatusTooManyRequests, Code: "too_many_requests"},
	translate.FaultServer:         {Status: http.StatusInternalServerError, Code: "internal"},
	translate.FaultOverloaded:     {Status: http.StatusServiceUnavailable, Code: "unavailable"},
	translate.FaultTimeout:        {Status: http.StatusGatewayTimeout, Code: "deadline_exceeded"},
	translate.FaultContext:        {Status: http.StatusBadRequest, Code: "invalid_request"},
}

// ReadRequest implements [translate.Dialect].
func (Codec) ReadRequest(r *translate.Reader, body rawjson.Value, _ translate.Incoming) error {
	return reader{r}.request(body)
}

// WriteRequest implements [translate.Dialect].
func (Codec) WriteRequest(w *translate.Writer) error { return writer{w}.request() }

// Samples implements [translate.Dialect].
func (Codec) Samples(*translate.Writer, translate.Param) bool { return true }

// Tier implements [translate.Dialect].
func (Codec) Tier(_ *translate.Writer, name string) rawjson.Value {
	switch name {
	case "standard_only", "default":
		return rawjson.Value(`"standard"`)
	case "flex", "priority":
		return rawjson.Value(`"` + name + `"`)
	}
	return nil
}

// KeepsSystem implements [translate.Dialect].
func (Codec) KeepsSystem(*translate.Writer) bool { return false }

// EndsWithUser implements [translate.Dialect].
func (Codec) EndsWithUser(*translate.Writer) bool { return false }

// AnswerWriter implements [translate.Dialect].
func (Codec) AnswerWriter(f *translate.Flow, out *translate.Buffer) translate.AnswerWriter {
	return &streamWriter{Buffer: out, flow: f}
}

// AppendAnswer implements [translate.Dialect].
func (Codec) AppendAnswer(dst []byte, c *translate.Collected) []byte { return appendAnswer(dst, c) }

// CallBuffer implements [translate.Dialect].
func (c Codec) CallBuffer(bool) translate.CallBuffer {
	return translate.NewNumberedBuffer(c, translate.NumberedBuffer{Index: "index", Arguments: "delta.arguments"})
}

// AppendFailure implements [translate.Dialect].
func (Codec) AppendFailure(b []byte, _ *translate.Failure, w translate.Words, text string) []byte {
	b = append(b, `{"error":{"message":`...)
	b = rawjson.AppendQuoted(b, text)
	b = append(b, `,"code":`...)
	b = rawjson.AppendQuoted(b, w.Code)
	return append(b, `}}`...)
}

// TooLong implements [translate.Dialect].
func (Codec) TooLong(message string, tokens, answer, limit int64) string {
	return gemini.Codec{}.TooLong(message, tokens, answer, limit)
}

// Endpoint implements [translate.Dialect].
func (Codec) Endpoint(prefix, _ string, _ bool) (string, string) {
	return prefix + "/v1beta/interactions", ""
}

// Prefix implements [translate.Dialect].
func (Codec) Prefix(path string) string {
	for _, version := range []string{"/v1beta/", "/v1beta1/", "/v1alpha/", "/v1/", "/interactions"} {
		if i := strings.LastIndex(path, version); i >= 0 {
			return path[:i]
		}
	}
	return ""
}
