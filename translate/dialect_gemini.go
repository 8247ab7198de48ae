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
	"strings"
)

type geminiDialect struct{}

func (geminiDialect) rules() rules {
	return rules{
		params: [paramCount]string{
			MaxTokens: "generationConfig.maxOutputTokens", Temperature: "generationConfig.temperature", TopP: "generationConfig.topP",
			TopK: "generationConfig.topK", Seed: "generationConfig.seed", PresencePenalty: "generationConfig.presencePenalty",
			FrequencyPenalty: "generationConfig.frequencyPenalty",
		},
		reasoning: "generationConfig.thinkingConfig", output: "generationConfig.responseMimeType", choice: "toolConfig.functionCallingConfig.mode",
		failed: "contents[].parts[].functionResponse.response.error", thinking: "contents[].parts[].thoughtSignature",
		nameLimit: 64, dots: true, signedCalls: true, narrows: true, longestUser: 64, foldsSystem: true,
		headers: []string{"x-goog-"}, key: "X-Goog-Api-Key", status: true, faults: geminiFaults,
	}
}

var geminiFaults = map[fault]words{
	faultInvalid:        {http.StatusBadRequest, "INVALID_ARGUMENT", ""},
	faultAuthentication: {http.StatusUnauthorized, "UNAUTHENTICATED", ""},
	faultBilling:        {http.StatusTooManyRequests, "RESOURCE_EXHAUSTED", ""},
	faultPermission:     {http.StatusForbidden, "PERMISSION_DENIED", ""},
	faultNotFound:       {http.StatusNotFound, "NOT_FOUND", ""},
	faultConflict:       {http.StatusConflict, "ABORTED", ""},
	faultTooLarge:       {http.StatusRequestEntityTooLarge, "INVALID_ARGUMENT", ""},
	faultRate:           {http.StatusTooManyRequests, "RESOURCE_EXHAUSTED", ""},
	faultServer:         {http.StatusInternalServerError, "INTERNAL", ""},
	faultOverloaded:     {http.StatusServiceUnavailable, "UNAVAILABLE", ""},
	faultTimeout:        {http.StatusGatewayTimeout, "DEADLINE_EXCEEDED", ""},
	faultContext:        {http.StatusBadRequest, "INVALID_ARGUMENT", ""},
}

func (geminiDialect) read(r *reader, body raw, in Incoming) error { return r.gemini(body, in) }

func (geminiDialect) write(w *writer) error { return w.gemini() }

func (geminiDialect) samples(*writer, Param) bool { return true }

func (geminiDialect) tier(_ *writer, name string) raw {
	if name == "auto" {
		return raw(`"auto"`)
	}
	return nil
}

func (geminiDialect) keepsSystem(*writer) bool { return false }

func (geminiDialect) endsWithUser(*writer) bool { return false }

func (geminiDialect) reader() answerReader { return new(geminiReader) }

func (geminiDialect) writer(f *flow, out *output) answerWriter {
	return &geminiWriter{output: out, flow: f}
}

func (geminiDialect) appendWhole(dst []byte, c *collected) []byte { return appendGemini(dst, c) }

func (geminiDialect) holder(bool) holder { return nil } // calls come whole

func (geminiDialect) appendFailure(b []byte, f *Failure, w words, text string) []byte {
	b = append(b, `{"error":{"code":`...)
	b = strconv.AppendInt(b, int64(w.status), 10)
	b = append(b, `,"message":`...)
	b = appendQuoted(b, text)
	b = append(b, `,"status":`...)
	b = appendQuoted(b, w.kind)
	if f.RetryAfter > 0 {
		b = append(b, `,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"`...)
		b = strconv.AppendInt(b, int64(f.RetryAfter), 10)
		b = append(b, `s"}]`...)
	}
	return append(b, `}}`...)
}

func (geminiDialect) tooLong(message string, tokens, limit int64) string {
	if tokens > 0 && limit > 0 {
		return "The input token count (" + strconv.FormatInt(tokens, 10) + ") exceeds the maximum number of tokens allowed (" + strconv.FormatInt(limit, 10) + ")."
	}
	return message
}

func (geminiDialect) endpoint(prefix, model string, stream bool) (string, string) {
	prefix += "/v1beta/models/" + strings.TrimPrefix(model, "models/")
	if stream {
		return prefix + ":streamGenerateContent", "alt=sse"
	}
	return prefix + ":generateContent", ""
}

func (geminiDialect) prefix(path string) string {
	for _, version := range []string{"/v1beta/", "/v1beta1/", "/v1alpha/", "/v1/", "/models/"} {
		if i := strings.LastIndex(path, version); i >= 0 {
			return path[:i]
		}
	}
	return ""
}
