// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package openai is the shared part of OpenAI's two formats: chat completions and Responses.
package openai

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// Dialect has the methods of [translate.Dialect] that both APIs share.
type Dialect struct{}

// Headers are the name prefixes of OpenAI's own headers.
var Headers = []string{"openai-", "x-openai-"}

// Faults are the statuses, types and codes of the APIs' errors.
var Faults = map[translate.Fault]translate.Words{
	translate.FaultInvalid: {Status: http.StatusBadRequest, Type: "invalid_request_error"},
	translate.FaultAuthentication: {
		Status: http.StatusUnauthorized, Type: "invalid_request_error",
		Code: "invalid_api_key",
	},
	translate.FaultBilling: {
		Status: http.StatusTooManyRequests, Type: "insufficient_quota",
		Code: "insufficient_quota",
	},
	translate.FaultPermission: {
		Status: http.StatusForbidden, Type: "invalid_request_error",
		Code: "permission_denied",
	},
	translate.FaultNotFound: {Status: http.StatusNotFound, Type: "invalid_request_error", Code: "model_not_found"},
	translate.FaultConflict: {Status: http.StatusConflict, Type: "invalid_request_error"},
	translate.FaultTooLarge: {Status: http.StatusRequestEntityTooLarge, Type: "invalid_request_error"},
	translate.FaultRate: {
		Status: http.StatusTooManyRequests, Type: "rate_limit_error",
		Code: "rate_limit_exceeded",
	},
	translate.FaultServer:     {Status: http.StatusInternalServerError, Type: "server_error"},
	translate.FaultOverloaded: {Status: http.StatusServiceUnavailable, Type: "server_error"},
	translate.FaultTimeout:    {Status: http.StatusGatewayTimeout, Type: "server_error"},
	translate.FaultContext: {
		Status: http.StatusBadRequest, Type: "invalid_request_error",
		Code: "context_length_exceeded",
	},
}

// Samples implements [translate.Dialect].
func (Dialect) Samples(w *translate.Writer, _ translate.Param) bool {
	return !w.Options.Official || !Reasons(w.Model)
}

// KeepsSystem implements [translate.Dialect].
func (Dialect) KeepsSystem(w *translate.Writer) bool { return w.Options.Official }

// EndsWithUser implements [translate.Dialect].
func (Dialect) EndsWithUser(*translate.Writer) bool { return false }

// Tier implements [translate.Dialect].
func (Dialect) Tier(w *translate.Writer, name string) rawjson.Value {
	switch {
	case name == "auto":
		return rawjson.Value(`"auto"`)
	case name == "standard_only":
		return rawjson.Value(`"default"`)
	case w.Client.Provider == w.Rules.Provider: // the client speaks the other API of OpenAI
		return w.Request.Params[translate.ServiceTier]
	}
	return nil
}

// AppendFailure implements [translate.Dialect].
func (Dialect) AppendFailure(b []byte, f *translate.Failure, w translate.Words, text string) []byte {
	b = append(b, `{"error":{"message":`...)
	b = rawjson.AppendQuoted(b, text)
	b = append(b, `,"type":`...)
	b = rawjson.AppendQuoted(b, w.Type)
	b = append(b, `,"param":null,"code":`...)
	if code := Code(f, w); code != "" {
		b = rawjson.AppendQuoted(b, code)
	} else {
		b = append(b, "null"...)
	}
	return append(b, `}}`...)
}

// TooLong implements [translate.Dialect].
func (Dialect) TooLong(message string, tokens, answer, limit int64) string {
	if tokens > 0 && limit > 0 && answer > 0 {
		return fmt.Sprintf("This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the "+
			"messages, %d in the completion). Please reduce the length of the messages or completion.",
			limit, tokens+answer, tokens, answer)
	}
	if tokens > 0 && limit > 0 {
		return "This model's maximum context length is " + strconv.FormatInt(limit, 10) +
			" tokens. However, your messages resulted in " +
			strconv.FormatInt(tokens, 10) + " tokens. Please reduce the length of the messages."
	}
	return message
}

// Code returns the code of a failure, or the upstream's code where the API has none.
func Code(f *translate.Failure, w translate.Words) string {
	// The API's only code for a missing object is that of a missing model.
	if w.Code == "" || f.Modelless && w.Status == http.StatusNotFound {
		return f.Code
	}
	return w.Code
}
