// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package anthropic

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// Rules implements [translate.Dialect].
func (Codec) Rules() translate.Rules {
	return translate.Rules{
		Params: [translate.ParamCount]string{
			translate.MaxTokens: "max_tokens", translate.Temperature: "temperature", translate.TopP: "top_p",
			translate.TopK: "top_k", translate.UserID: "metadata.user_id", translate.ServiceTier: "service_tier",
		},
		Reasoning: "thinking", Output: "output_config.format", Parallel: "tool_choice.disable_parallel_tool_use",
		Failed: "messages[].content[].is_error", Strict: "tools[].strict", Thinking: "messages[].content[].thinking",
		NameLimit: 128, IDLimit: 64, IDPrefix: "msg", MaxTemperature: 1, RefusesBlank: true, Proves: "claude-",
		EndsThinking:     true,
		SystemBehindUser: true,
		Headers:          []string{"anthropic-"}, Bearer: true, Version: [2]string{"Anthropic-Version", "2023-06-01"},
		Faults: faults,
	}
}

var faults = map[translate.Fault]translate.Words{
	translate.FaultInvalid:        {Status: http.StatusBadRequest, Type: "invalid_request_error"},
	translate.FaultAuthentication: {Status: http.StatusUnauthorized, Type: "authentication_error"},
	translate.FaultBilling:        {Status: http.StatusPaymentRequired, Type: "billing_error"},
	translate.FaultPermission:     {Status: http.StatusForbidden, Type: "permission_error"},
	translate.FaultNotFound:       {Status: http.StatusNotFound, Type: "not_found_error"},
	translate.FaultConflict:       {Status: http.StatusConflict, Type: "conflict_error"},
	translate.FaultTooLarge:       {Status: http.StatusRequestEntityTooLarge, Type: "request_too_large"},
	translate.FaultRate:           {Status: http.StatusTooManyRequests, Type: "rate_limit_error"},
	translate.FaultServer:         {Status: http.StatusInternalServerError, Type: "api_error"},
	translate.FaultOverloaded:     {Status: translate.StatusOverloaded, Type: "overloaded_error"},
	translate.FaultTimeout:        {Status: http.StatusGatewayTimeout, Type: "timeout_error"},
	translate.FaultContext:        {Status: http.StatusBadRequest, Type: "invalid_request_error"},
}

// ReadRequest implements [translate.Dialect].
func (Codec) ReadRequest(r *translate.Reader, body rawjson.Value, _ translate.Incoming) error {
	err := (&reader{Reader: r}).request(body)
	n, ok := r.Request.Params[translate.MaxTokens].Int()
	r.Request.FillsCache = ok && n == 0
	return err
}

// WriteRequest implements [translate.Dialect].
func (Codec) WriteRequest(w *translate.Writer) error { return (&writer{Writer: w}).request() }

// Samples implements [translate.Dialect].
func (Codec) Samples(w *translate.Writer, p translate.Param) bool {
	if p == translate.TopP && w.Request.Params[translate.Temperature] != nil {
		return false // recent models take only one of the two
	}
	return !claudeOf(w.Model).fixedSampling()
}

// Tier implements [translate.Dialect].
func (Codec) Tier(_ *translate.Writer, name string) rawjson.Value {
	switch name {
	case "auto":
		return rawjson.Value(`"auto"`)
	case "default":
		return rawjson.Value(`"standard_only"`)
	}
	return nil
}

// KeepsSystem implements [translate.Dialect].
func (Codec) KeepsSystem(w *translate.Writer) bool { return claudeOf(w.Model).systemMessages() }

// EndsWithUser implements [translate.Dialect].
func (Codec) EndsWithUser(w *translate.Writer) bool { return claudeOf(w.Model).refusesPrefill() }

// AnswerWriter implements [translate.Dialect].
func (Codec) AnswerWriter(f *translate.Flow, out *translate.Buffer) translate.AnswerWriter {
	return &streamWriter{Buffer: out, flow: f}
}

// AppendAnswer implements [translate.Dialect].
func (Codec) AppendAnswer(dst []byte, c *translate.Collected) []byte { return appendAnswer(dst, c) }

// CallBuffer implements [translate.Dialect].
func (c Codec) CallBuffer(bool) translate.CallBuffer {
	return translate.NewNumberedBuffer(c, translate.NumberedBuffer{Index: "index", Arguments: "delta.partial_json"})
}

// AppendFailure implements [translate.Dialect].
func (Codec) AppendFailure(b []byte, f *translate.Failure, w translate.Words, text string) []byte {
	b = append(b, `{"type":"error","error":{"type":`...)
	b = rawjson.AppendQuoted(b, w.Type)
	b = append(b, `,"message":`...)
	b = rawjson.AppendQuoted(b, text)
	return append(b, `}}`...)
}

// TooLong implements [translate.Dialect].
func (Codec) TooLong(message string, tokens, answer, limit int64) string {
	// Claude Code reads the new max_tokens from the first text. It keeps 1000 tokens in reserve and
	// fails if less than 3000 tokens are left. On the second text it compacts the conversation.
	const minTokens = 4000
	if tokens > 0 && answer > 0 && limit-tokens >= minTokens {
		return fmt.Sprintf("input length and `max_tokens` exceed context limit: %d + %d > %d, decrease input length or "+
			"`max_tokens` and try again", tokens, answer, limit)
	}
	if tokens > 0 && limit > 0 {
		if tokens <= limit {
			tokens += answer
		}
		return "prompt is too long: " + strconv.FormatInt(tokens, 10) + " tokens > " + strconv.FormatInt(limit, 10) +
			" maximum"
	}
	return "prompt is too long: " + message
}

// Endpoint implements [translate.Dialect].
func (Codec) Endpoint(prefix, _ string, _ bool) (string, string) {
	return prefix + "/v1/messages", ""
}

// Prefix implements [translate.Dialect].
func (Codec) Prefix(path string) string { return translate.Before(path, "/v1/messages") }
