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

func (anthropicDialect) rules() rules {
	return rules{
		params: [paramCount]string{
			MaxTokens: "max_tokens", Temperature: "temperature", TopP: "top_p", TopK: "top_k", UserID: "metadata.user_id", ServiceTier: "service_tier",
		},
		reasoning: "thinking", output: "output_config.format", parallel: "tool_choice.disable_parallel_tool_use",
		failed: "messages[].content[].is_error", strict: "tools[].strict", thinking: "messages[].content[].thinking",
		nameLimit: 128, idLimit: 64, idPrefix: "msg", warmest: 1, refusesBlank: true, endsThinking: true, systemBehindUser: true,
		headers: []string{"anthropic-"}, key: "X-Api-Key", bearer: true, version: [2]string{"Anthropic-Version", "2023-06-01"},
		faults: anthropicFaults,
	}
}

var anthropicFaults = map[fault]words{
	faultInvalid:        {http.StatusBadRequest, "invalid_request_error", ""},
	faultAuthentication: {http.StatusUnauthorized, "authentication_error", ""},
	faultBilling:        {http.StatusPaymentRequired, "billing_error", ""},
	faultPermission:     {http.StatusForbidden, "permission_error", ""},
	faultNotFound:       {http.StatusNotFound, "not_found_error", ""},
	faultConflict:       {http.StatusConflict, "conflict_error", ""},
	faultTooLarge:       {http.StatusRequestEntityTooLarge, "request_too_large", ""},
	faultRate:           {http.StatusTooManyRequests, "rate_limit_error", ""},
	faultServer:         {http.StatusInternalServerError, "api_error", ""},
	faultOverloaded:     {statusOverloaded, "overloaded_error", ""},
	faultTimeout:        {http.StatusGatewayTimeout, "timeout_error", ""},
	faultContext:        {http.StatusBadRequest, "invalid_request_error", ""},
}

func (anthropicDialect) read(r *reader, body raw, _ Incoming) error {
	err := r.anthropic(body)
	n, ok := r.q.Params[MaxTokens].int()
	r.q.FillsCache = ok && n == 0
	return err
}

func (anthropicDialect) write(w *writer) error { return w.anthropic() }

func (anthropicDialect) samples(w *writer, p Param) bool {
	if p == TopP && w.q.Params[Temperature] != nil {
		return false // recent models take one of the two
	}
	return !claudeOf(w.model).fixedSampling()
}

func (anthropicDialect) tier(_ *writer, name string) raw {
	switch name {
	case "auto":
		return raw(`"auto"`)
	case "default":
		return raw(`"standard_only"`)
	}
	return nil
}

func (anthropicDialect) keepsSystem(w *writer) bool { return claudeOf(w.model).systemMessages() }

func (anthropicDialect) endsWithUser(w *writer) bool { return claudeOf(w.model).refusesPrefill() }

func (anthropicDialect) reader() answerReader { return new(anthropicReader) }

func (anthropicDialect) writer(f *flow, out *output) answerWriter {
	return &anthropicWriter{output: out, flow: f}
}

func (anthropicDialect) appendWhole(dst []byte, c *collected) []byte { return appendAnthropic(dst, c) }

func (anthropicDialect) holder(bool) holder { return new(anthropicHolder) }

func (anthropicDialect) appendFailure(b []byte, f *Failure, w words, text string) []byte {
	b = append(b, `{"type":"error","error":{"type":`...)
	b = appendQuoted(b, w.kind)
	b = append(b, `,"message":`...)
	b = appendQuoted(b, text)
	return append(b, `}}`...)
}

func (anthropicDialect) tooLong(message string, tokens, limit int64) string {
	if tokens > 0 && limit > 0 {
		return "prompt is too long: " + strconv.FormatInt(tokens, 10) + " tokens > " + strconv.FormatInt(limit, 10) + " maximum"
	}
	return "prompt is too long: " + message
}

func (anthropicDialect) endpoint(prefix, _ string, _ bool) (string, string) {
	return prefix + "/v1/messages", ""
}

func (anthropicDialect) prefix(path string) string { return before(path, "/v1/messages") }
