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

var openAIFaults = map[fault]words{
	faultInvalid:        {http.StatusBadRequest, "invalid_request_error", ""},
	faultAuthentication: {http.StatusUnauthorized, "invalid_request_error", "invalid_api_key"},
	faultBilling:        {http.StatusTooManyRequests, "insufficient_quota", "insufficient_quota"},
	faultPermission:     {http.StatusForbidden, "invalid_request_error", "permission_denied"},
	faultNotFound:       {http.StatusNotFound, "invalid_request_error", "model_not_found"},
	faultConflict:       {http.StatusConflict, "invalid_request_error", ""},
	faultTooLarge:       {http.StatusRequestEntityTooLarge, "invalid_request_error", ""},
	faultRate:           {http.StatusTooManyRequests, "rate_limit_error", "rate_limit_exceeded"},
	faultServer:         {http.StatusInternalServerError, "server_error", ""},
	faultOverloaded:     {http.StatusServiceUnavailable, "server_error", ""},
	faultTimeout:        {http.StatusGatewayTimeout, "server_error", ""},
	faultContext:        {http.StatusBadRequest, "invalid_request_error", "context_length_exceeded"},
}

// openAISamples reports whether a model takes sampling parameters.
func openAISamples(w *writer) bool { return !w.o.Official || !reasons(w.model) }

// openAITier maps a service tier.
func openAITier(w *writer, name string) raw {
	switch {
	case name == "auto":
		return raw(`"auto"`)
	case name == "standard_only":
		return raw(`"default"`)
	case w.client.provider == w.rules.provider: // the other API
		return w.q.Params[ServiceTier]
	}
	return nil
}

func appendOpenAIFailure(b []byte, f *Failure, w words, text string) []byte {
	b = append(b, `{"error":{"message":`...)
	b = appendQuoted(b, text)
	b = append(b, `,"type":`...)
	b = appendQuoted(b, w.kind)
	b = append(b, `,"param":null,"code":`...)
	if code := openAICode(f, w); code != "" {
		b = appendQuoted(b, code)
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
func openAICode(f *Failure, w words) string {
	if w.code == "" {
		return f.Code
	}
	return w.code
}
