// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package gemini

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// Rules implements [translate.Dialect].
func (Codec) Rules() translate.Rules {
	return translate.Rules{
		Images: true,
		Params: [translate.ParamCount]string{
			translate.MaxTokens: "generationConfig.maxOutputTokens", translate.Temperature: "generationConfig.temperature",
			translate.TopP: "generationConfig.topP",
			translate.TopK: "generationConfig.topK", translate.Seed: "generationConfig.seed",
			translate.PresencePenalty:  "generationConfig.presencePenalty",
			translate.FrequencyPenalty: "generationConfig.frequencyPenalty",
		},
		Reasoning: "generationConfig.thinkingConfig", Output: "generationConfig.responseMimeType",
		Choice: "toolConfig.functionCallingConfig.mode",
		Failed: "contents[].parts[].functionResponse.response.error", Thinking: "contents[].parts[].thoughtSignature",
		NameLimit: 64, Dots: true, SignedCalls: true, Narrows: true, MaxUser: 64, FoldsSystem: true,
		Headers: []string{"x-goog-"}, Status: true, Faults: faults,
	}
}

var faults = map[translate.Fault]translate.Words{
	translate.FaultInvalid:        {Status: http.StatusBadRequest, Type: "INVALID_ARGUMENT"},
	translate.FaultAuthentication: {Status: http.StatusUnauthorized, Type: "UNAUTHENTICATED"},
	translate.FaultBilling:        {Status: http.StatusTooManyRequests, Type: "RESOURCE_EXHAUSTED"},
	translate.FaultPermission:     {Status: http.StatusForbidden, Type: "PERMISSION_DENIED"},
	translate.FaultNotFound:       {Status: http.StatusNotFound, Type: "NOT_FOUND"},
	translate.FaultConflict:       {Status: http.StatusConflict, Type: "ABORTED"},
	translate.FaultTooLarge:       {Status: http.StatusRequestEntityTooLarge, Type: "INVALID_ARGUMENT"},
	translate.FaultRate:           {Status: http.StatusTooManyRequests, Type: "RESOURCE_EXHAUSTED"},
	translate.FaultServer:         {Status: http.StatusInternalServerError, Type: "INTERNAL"},
	translate.FaultOverloaded:     {Status: http.StatusServiceUnavailable, Type: "UNAVAILABLE"},
	translate.FaultTimeout:        {Status: http.StatusGatewayTimeout, Type: "DEADLINE_EXCEEDED"},
	translate.FaultContext:        {Status: http.StatusBadRequest, Type: "INVALID_ARGUMENT"},
}

// ReadRequest implements [translate.Dialect].
func (Codec) ReadRequest(r *translate.Reader, body rawjson.Value, in translate.Incoming) error {
	return (&reader{Reader: r}).request(body, in)
}

// WriteRequest implements [translate.Dialect].
func (Codec) WriteRequest(w *translate.Writer) error { return writer{w}.request() }

// Samples implements [translate.Dialect].
func (Codec) Samples(*translate.Writer, translate.Param) bool { return true }

// Tier implements [translate.Dialect].
func (Codec) Tier(_ *translate.Writer, name string) rawjson.Value {
	if name == "auto" {
		return rawjson.Value(`"auto"`)
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
func (Codec) CallBuffer(bool) translate.CallBuffer { return nil } // calls come whole

// endsGeminiCLI is the shortest retry delay, in seconds, that makes Gemini CLI (0.61) stop and show the
// message instead of waiting.
const endsGeminiCLI = 301

// AppendFailure implements [translate.Dialect].
func (Codec) AppendFailure(b []byte, f *translate.Failure, w translate.Words, text string) []byte {
	b = append(b, `{"error":{"code":`...)
	b = strconv.AppendInt(b, int64(w.Status), 10)
	b = append(b, `,"message":`...)
	b = rawjson.AppendQuoted(b, text)
	b = append(b, `,"status":`...)
	b = rawjson.AppendQuoted(b, w.Type)
	switch {
	case f.Resets > 0:
		// A quotaId that contains PerDay would stop Gemini CLI too, but without the message.
		b = append(b,
			`,"details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"LlmCacheBudget",`+
				`"description":`...)
		b = rawjson.AppendQuoted(b, text)
		b = append(b, `}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"`...)
		b = strconv.AppendInt(b, int64(max(f.Resets, endsGeminiCLI)), 10)
		b = append(b, `s"}]`...)
	case f.RetryAfter > 0:
		b = append(b, `,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"`...)
		b = strconv.AppendInt(b, int64(f.RetryAfter), 10)
		b = append(b, `s"}]`...)
	}
	return append(b, `}}`...)
}

// TooLong implements [translate.Dialect].
func (Codec) TooLong(message string, tokens, answer, limit int64) string {
	if tokens > 0 && limit > 0 {
		return "The input token count (" + strconv.FormatInt(tokens+answer, 10) +
			") exceeds the maximum number of tokens allowed (" + strconv.FormatInt(limit, 10) + ")."
	}
	return message
}

// Endpoint implements [translate.Dialect].
func (Codec) Endpoint(prefix, model string, stream bool) (string, string) {
	prefix += "/v1beta/models/" + strings.TrimPrefix(model, "models/")
	if stream {
		return prefix + ":streamGenerateContent", "alt=sse"
	}
	return prefix + ":generateContent", ""
}

// Prefix implements [translate.Dialect].
func (Codec) Prefix(path string) string {
	for _, version := range []string{"/v1beta/", "/v1beta1/", "/v1alpha/", "/v1/", "/models/"} {
		if i := strings.LastIndex(path, version); i >= 0 {
			return path[:i]
		}
	}
	return ""
}
