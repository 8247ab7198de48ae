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

func (geminiDialect) Rules() Rules {
	return Rules{
		Params: [ParamCount]string{
			MaxTokens: "generationConfig.maxOutputTokens", Temperature: "generationConfig.temperature", TopP: "generationConfig.topP",
			TopK: "generationConfig.topK", Seed: "generationConfig.seed", PresencePenalty: "generationConfig.presencePenalty",
			FrequencyPenalty: "generationConfig.frequencyPenalty",
		},
		Reasoning: "generationConfig.thinkingConfig", Output: "generationConfig.responseMimeType", Choice: "toolConfig.functionCallingConfig.mode",
		Failed: "contents[].parts[].functionResponse.response.error", Thinking: "contents[].parts[].thoughtSignature",
		NameLimit: 64, Dots: true, SignedCalls: true, Narrows: true, LongestUser: 64, FoldsSystem: true,
		Headers: []string{"x-goog-"}, Key: "X-Goog-Api-Key", Status: true, Faults: geminiFaults,
	}
}

var geminiFaults = map[Fault]Words{
	FaultInvalid:        {http.StatusBadRequest, "INVALID_ARGUMENT", ""},
	FaultAuthentication: {http.StatusUnauthorized, "UNAUTHENTICATED", ""},
	FaultBilling:        {http.StatusTooManyRequests, "RESOURCE_EXHAUSTED", ""},
	FaultPermission:     {http.StatusForbidden, "PERMISSION_DENIED", ""},
	FaultNotFound:       {http.StatusNotFound, "NOT_FOUND", ""},
	FaultConflict:       {http.StatusConflict, "ABORTED", ""},
	FaultTooLarge:       {http.StatusRequestEntityTooLarge, "INVALID_ARGUMENT", ""},
	FaultRate:           {http.StatusTooManyRequests, "RESOURCE_EXHAUSTED", ""},
	FaultServer:         {http.StatusInternalServerError, "INTERNAL", ""},
	FaultOverloaded:     {http.StatusServiceUnavailable, "UNAVAILABLE", ""},
	FaultTimeout:        {http.StatusGatewayTimeout, "DEADLINE_EXCEEDED", ""},
	FaultContext:        {http.StatusBadRequest, "INVALID_ARGUMENT", ""},
}

func (geminiDialect) ReadRequest(r *Reader, body Value, in Incoming) error { return r.gemini(body, in) }

func (geminiDialect) WriteRequest(w *Writer) error { return w.gemini() }

func (geminiDialect) Samples(*Writer, Param) bool { return true }

func (geminiDialect) Tier(_ *Writer, name string) Value {
	if name == "auto" {
		return Value(`"auto"`)
	}
	return nil
}

func (geminiDialect) KeepsSystem(*Writer) bool { return false }

func (geminiDialect) EndsWithUser(*Writer) bool { return false }

func (geminiDialect) AnswerReader() AnswerReader { return new(geminiReader) }

func (geminiDialect) AnswerWriter(f *Flow, out *Buffer) AnswerWriter {
	return &geminiWriter{Buffer: out, flow: f}
}

func (geminiDialect) AppendAnswer(dst []byte, c *Collected) []byte { return appendGemini(dst, c) }

func (geminiDialect) Holder(bool) Holder { return nil } // calls come whole

func (geminiDialect) AppendFailure(b []byte, f *Failure, w Words, text string) []byte {
	b = append(b, `{"error":{"code":`...)
	b = strconv.AppendInt(b, int64(w.Status), 10)
	b = append(b, `,"message":`...)
	b = AppendQuoted(b, text)
	b = append(b, `,"status":`...)
	b = AppendQuoted(b, w.Type)
	if f.RetryAfter > 0 {
		b = append(b, `,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"`...)
		b = strconv.AppendInt(b, int64(f.RetryAfter), 10)
		b = append(b, `s"}]`...)
	}
	return append(b, `}}`...)
}

func (geminiDialect) TooLong(message string, tokens, limit int64) string {
	if tokens > 0 && limit > 0 {
		return "The input token count (" + strconv.FormatInt(tokens, 10) + ") exceeds the maximum number of tokens allowed (" + strconv.FormatInt(limit, 10) + ")."
	}
	return message
}

func (geminiDialect) Endpoint(prefix, model string, stream bool) (string, string) {
	prefix += "/v1beta/models/" + strings.TrimPrefix(model, "models/")
	if stream {
		return prefix + ":streamGenerateContent", "alt=sse"
	}
	return prefix + ":generateContent", ""
}

func (geminiDialect) Prefix(path string) string {
	for _, version := range []string{"/v1beta/", "/v1beta1/", "/v1alpha/", "/v1/", "/models/"} {
		if i := strings.LastIndex(path, version); i >= 0 {
			return path[:i]
		}
	}
	return ""
}
