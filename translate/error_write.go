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

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// words are how an API calls a fault: its status, its type and its code.
type words struct {
	status     int
	kind, code string
}

var faultNames = map[wire.Format]map[fault]words{
	wire.Anthropic: {
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
	},
	wire.OpenAIChat: {
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
	},
	wire.Gemini: {
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
	},
}

// in returns how the client's API calls the failure. A status of the upstream
// that fits as well stays.
func (f *Failure) in(to wire.Format) words {
	f.complete()
	names := faultNames[to]
	if names == nil { // both APIs of OpenAI speak alike
		names = faultNames[wire.OpenAIChat]
	}
	w := names[f.fault]
	switch f.fault {
	case faultOverloaded, faultContext, faultBilling, faultRate:
	default:
		if f.Status >= 400 && f.Status <= 599 && f.Status != statusOverloaded {
			w.status = f.Status
		}
	}
	return w
}

// text returns the message as the client's API would word it, where clients go
// by the wording: they compact a conversation that has become too long.
func (f *Failure) text(to wire.Format) string {
	if f.fault != faultContext {
		return f.Message
	}
	n, m := strconv.FormatInt(f.tokens, 10), strconv.FormatInt(f.limit, 10)
	known := f.tokens > 0 && f.limit > 0
	switch {
	case to == wire.Anthropic && known:
		return "prompt is too long: " + n + " tokens > " + m + " maximum"
	case to == wire.Anthropic:
		return "prompt is too long: " + f.Message
	case to == wire.Gemini && known:
		return "The input token count (" + n + ") exceeds the maximum number of tokens allowed (" + m + ")."
	case to != wire.Gemini && known:
		return "This model's maximum context length is " + m + " tokens. However, your messages resulted in " + n + " tokens. Please reduce the length of the messages."
	}
	return f.Message
}

// Write returns the failure as an answer of the client's API.
func (f *Failure) Write(to wire.Format) (status int, body []byte) {
	w := f.in(to)
	return w.status, f.append(nil, to)
}

// append appends the body of the failure, which is on one line.
func (f *Failure) append(b []byte, to wire.Format) []byte {
	w := f.in(to)
	quote := func(b []byte, s string) []byte {
		b = append(b, '"')
		b = appendEscaped(b, s)
		return append(b, '"')
	}
	switch to {
	case wire.Anthropic:
		b = append(b, `{"type":"error","error":{"type":`...)
		b = quote(b, w.kind)
		b = append(b, `,"message":`...)
		b = quote(b, f.text(to))
		return append(b, `}}`...)
	case wire.Gemini:
		b = append(b, `{"error":{"code":`...)
		b = strconv.AppendInt(b, int64(w.status), 10)
		b = append(b, `,"message":`...)
		b = quote(b, f.text(to))
		b = append(b, `,"status":`...)
		b = quote(b, w.kind)
		if f.RetryAfter > 0 {
			b = append(b, `,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"`...)
			b = strconv.AppendInt(b, int64(f.RetryAfter), 10)
			b = append(b, `s"}]`...)
		}
		return append(b, `}}`...)
	}
	b = append(b, `{"error":{"message":`...)
	b = quote(b, f.text(to))
	b = append(b, `,"type":`...)
	b = quote(b, w.kind)
	b = append(b, `,"param":null,"code":`...)
	if code := f.code(w); code != "" {
		b = quote(b, code)
	} else {
		b = append(b, "null"...)
	}
	return append(b, `}}`...)
}

// code returns the code of the failure at an API of OpenAI.
func (f *Failure) code(w words) string {
	if w.code == "" {
		return f.Code
	}
	return w.code
}
