// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package translate

import (
	"net/http"
	"strconv"
)

type anthropicDialect struct{}

func (anthropicDialect) Rules() Rules {
	return Rules{
		Params: [ParamCount]string{
			MaxTokens: "max_tokens", Temperature: "temperature", TopP: "top_p", TopK: "top_k", UserID: "metadata.user_id", ServiceTier: "service_tier",
		},
		Reasoning: "thinking", Output: "output_config.format", Parallel: "tool_choice.disable_parallel_tool_use",
		Failed: "messages[].content[].is_error", Strict: "tools[].strict", Thinking: "messages[].content[].thinking",
		NameLimit: 128, IDLimit: 64, IDPrefix: "msg", Warmest: 1, RefusesBlank: true, EndsThinking: true, SystemBehindUser: true,
		Headers: []string{"anthropic-"}, Key: "X-Api-Key", Bearer: true, Version: [2]string{"Anthropic-Version", "2023-06-01"},
		Faults: anthropicFaults,
	}
}

var anthropicFaults = map[Fault]Words{
	FaultInvalid:        {http.StatusBadRequest, "invalid_request_error", ""},
	FaultAuthentication: {http.StatusUnauthorized, "authentication_error", ""},
	FaultBilling:        {http.StatusPaymentRequired, "billing_error", ""},
	FaultPermission:     {http.StatusForbidden, "permission_error", ""},
	FaultNotFound:       {http.StatusNotFound, "not_found_error", ""},
	FaultConflict:       {http.StatusConflict, "conflict_error", ""},
	FaultTooLarge:       {http.StatusRequestEntityTooLarge, "request_too_large", ""},
	FaultRate:           {http.StatusTooManyRequests, "rate_limit_error", ""},
	FaultServer:         {http.StatusInternalServerError, "api_error", ""},
	FaultOverloaded:     {StatusOverloaded, "overloaded_error", ""},
	FaultTimeout:        {http.StatusGatewayTimeout, "timeout_error", ""},
	FaultContext:        {http.StatusBadRequest, "invalid_request_error", ""},
}

func (anthropicDialect) ReadRequest(r *Reader, body Value, _ Incoming) error {
	err := r.anthropic(body)
	n, ok := r.Request.Params[MaxTokens].Int()
	r.Request.FillsCache = ok && n == 0
	return err
}

func (anthropicDialect) WriteRequest(w *Writer) error { return w.anthropic() }

func (anthropicDialect) Samples(w *Writer, p Param) bool {
	if p == TopP && w.Request.Params[Temperature] != nil {
		return false // recent models take one of the two
	}
	return !claudeOf(w.Model).fixedSampling()
}

func (anthropicDialect) Tier(_ *Writer, name string) Value {
	switch name {
	case "auto":
		return Value(`"auto"`)
	case "default":
		return Value(`"standard_only"`)
	}
	return nil
}

func (anthropicDialect) KeepsSystem(w *Writer) bool { return claudeOf(w.Model).systemMessages() }

func (anthropicDialect) EndsWithUser(w *Writer) bool { return claudeOf(w.Model).refusesPrefill() }

func (anthropicDialect) AnswerReader() AnswerReader { return new(anthropicReader) }

func (anthropicDialect) AnswerWriter(f *Flow, out *Buffer) AnswerWriter {
	return &anthropicWriter{Buffer: out, flow: f}
}

func (anthropicDialect) AppendAnswer(dst []byte, c *Collected) []byte { return appendAnthropic(dst, c) }

func (anthropicDialect) Holder(bool) Holder { return new(anthropicHolder) }

func (anthropicDialect) AppendFailure(b []byte, f *Failure, w Words, text string) []byte {
	b = append(b, `{"type":"error","error":{"type":`...)
	b = AppendQuoted(b, w.Type)
	b = append(b, `,"message":`...)
	b = AppendQuoted(b, text)
	return append(b, `}}`...)
}

func (anthropicDialect) TooLong(message string, tokens, limit int64) string {
	if tokens > 0 && limit > 0 {
		return "prompt is too long: " + strconv.FormatInt(tokens, 10) + " tokens > " + strconv.FormatInt(limit, 10) + " maximum"
	}
	return "prompt is too long: " + message
}

func (anthropicDialect) Endpoint(prefix, _ string, _ bool) (string, string) {
	return prefix + "/v1/messages", ""
}

func (anthropicDialect) Prefix(path string) string { return Before(path, "/v1/messages") }
