// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package websocket

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// beta is the value of OpenAI-Beta with which some clients ask for the WebSocket mode.
const beta = "responses_websockets="

// withoutBeta removes the value, because the POST is an ordinary request.
func withoutBeta(h http.Header) {
	const name = "Openai-Beta"
	var kept []string
	for _, line := range h[name] {
		for v := range strings.SplitSeq(line, ",") {
			if v = strings.TrimSpace(v); v != "" && !strings.HasPrefix(v, beta) {
				kept = append(kept, v)
			}
		}
	}
	if delete(h, name); len(kept) > 0 {
		h[name] = []string{strings.Join(kept, ",")}
	}
}

// failure is an error in the API's form for WebSockets.
type failure struct {
	lane    string
	status  int
	error   json.RawMessage
	headers map[string]string
}

// problem is the member error of a [failure].
type problem struct {
	Type    string  `json:"type"`
	Code    *string `json:"code"`
	Message string  `json:"message"`
	Param   *string `json:"param"`
}

func fail(status int, kind, code, message, param string) *failure {
	p := problem{Type: kind, Message: message}
	if code != "" {
		p.Code = &code
	}
	if param != "" {
		p.Param = &param
	}
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // only strings
	}
	return &failure{status: status, error: b}
}

func invalid(code, message, param string) *failure {
	return fail(http.StatusBadRequest, "invalid_request_error", code, message, param)
}

// notFound returns the error for a request that continues an unknown answer. Clients then send the
// whole conversation.
func notFound(id string) *failure {
	return invalid("previous_response_not_found", "Previous response with id '"+id+"' not found.", "previous_response_id")
}

// passed returns the headers of an error that clients read.
func passed(h http.Header) map[string]string {
	out := make(map[string]string)
	for name, values := range h {
		if len(values) == 0 || slices.Contains([]string{
			"Connection", "Content-Encoding", "Content-Length", "Content-Type",
			"Date", "Server", "Set-Cookie", "Trailer", "Transfer-Encoding", "Via",
		}, name) {
			continue
		}
		out[strings.ToLower(name)] = values[0]
	}
	return out
}

// answered converts an error response to a POST.
func answered(status int, h http.Header, body []byte) *failure {
	f := &failure{status: status}
	if e := gjson.GetBytes(body, "error"); rawjson.ValidBytes(body) && e.IsObject() {
		f.error = json.RawMessage(e.Raw)
	} else {
		text := strings.TrimSpace(string(body))
		if text == "" || !isText(h) {
			text = http.StatusText(status)
		}
		kind := "invalid_request_error"
		if status >= http.StatusInternalServerError {
			kind = "server_error"
		}
		f = fail(status, kind, "", text, "")
	}
	f.headers = passed(h)
	return f
}

// RefusalError is the reason for refusing a request, as an HTTP status and a text.
type RefusalError struct {
	Status  int
	Message string
}

// Error implements error.
func (r *RefusalError) Error() string { return strconv.Itoa(r.Status) + ": " + r.Message }

// refusal converts an error for the client.
func refusal(err error) *failure {
	r, ok := errors.AsType[*RefusalError](err)
	if !ok {
		r = &RefusalError{Status: http.StatusInternalServerError}
	}
	return answered(r.Status, http.Header{}, []byte(r.Message))
}

func isText(h http.Header) bool {
	kind := h.Get("Content-Type")
	return strings.HasPrefix(kind, "text/plain") || kind == ""
}

// event returns the failure as an event.
func (f *failure) event() []byte {
	b, err := json.Marshal(struct {
		Type    string            `json:"type"`
		Status  int               `json:"status"`
		Lane    string            `json:"stream_id,omitempty"`
		Error   json.RawMessage   `json:"error"`
		Headers map[string]string `json:"headers,omitempty"`
	}{"error", f.status, f.lane, f.error, f.headers})
	if err != nil {
		// The upstream's error is not valid JSON.
		f.error = fail(f.status, "server_error", "", http.StatusText(f.status), "").error
		return f.event()
	}
	return b
}
