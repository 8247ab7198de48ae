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

// What both APIs of OpenAI have in common.

var openAIHeaders = []string{"openai-", "x-openai-"}

var openAIFaults = map[Fault]Words{
	FaultInvalid:        {http.StatusBadRequest, "invalid_request_error", ""},
	FaultAuthentication: {http.StatusUnauthorized, "invalid_request_error", "invalid_api_key"},
	FaultBilling:        {http.StatusTooManyRequests, "insufficient_quota", "insufficient_quota"},
	FaultPermission:     {http.StatusForbidden, "invalid_request_error", "permission_denied"},
	FaultNotFound:       {http.StatusNotFound, "invalid_request_error", "model_not_found"},
	FaultConflict:       {http.StatusConflict, "invalid_request_error", ""},
	FaultTooLarge:       {http.StatusRequestEntityTooLarge, "invalid_request_error", ""},
	FaultRate:           {http.StatusTooManyRequests, "rate_limit_error", "rate_limit_exceeded"},
	FaultServer:         {http.StatusInternalServerError, "server_error", ""},
	FaultOverloaded:     {http.StatusServiceUnavailable, "server_error", ""},
	FaultTimeout:        {http.StatusGatewayTimeout, "server_error", ""},
	FaultContext:        {http.StatusBadRequest, "invalid_request_error", "context_length_exceeded"},
}

// openAISamples reports whether a model takes sampling parameters.
func openAISamples(w *Writer) bool { return !w.Options.Official || !Reasons(w.Model) }

// openAITier maps a service tier.
func openAITier(w *Writer, name string) Value {
	switch {
	case name == "auto":
		return Value(`"auto"`)
	case name == "standard_only":
		return Value(`"default"`)
	case w.Client.Provider == w.Rules.Provider: // the other API
		return w.Request.Params[ServiceTier]
	}
	return nil
}

func appendFailure(b []byte, f *Failure, w Words, text string) []byte {
	b = append(b, `{"error":{"message":`...)
	b = AppendQuoted(b, text)
	b = append(b, `,"type":`...)
	b = AppendQuoted(b, w.Type)
	b = append(b, `,"param":null,"code":`...)
	if code := openAICode(f, w); code != "" {
		b = AppendQuoted(b, code)
	} else {
		b = append(b, "null"...)
	}
	return append(b, `}}`...)
}

func openAITooLong(message string, tokens, limit int64) string {
	if tokens > 0 && limit > 0 {
		return "This model's maximum context length is " + strconv.FormatInt(limit, 10) + " tokens. However, your messages resulted in " +
			strconv.FormatInt(tokens, 10) + " tokens. Please reduce the length of the messages."
	}
	return message
}

// openAICode returns the code of a failure.
func openAICode(f *Failure, w Words) string {
	if w.Code == "" {
		return f.Code
	}
	return w.Code
}
