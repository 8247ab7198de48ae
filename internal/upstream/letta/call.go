// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package letta

import (
	"errors"
	"net/http"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// longestReply bounds a response to an internal request, in bytes: an agent is listed with all of
// its tools and blocks.
const longestReply = 8 << 20

var errLongReply = errors.New("letta: the answer of the server is too long")

// reply is the response to an internal request.
type reply struct {
	header http.Header
	status int
	body   []byte
}

// Header implements [http.ResponseWriter].
func (a *reply) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter].
func (a *reply) WriteHeader(status int) {
	// Ignore informational responses.
	if a.status == 0 && status >= 200 {
		a.status = status
	}
}

// Write implements [http.ResponseWriter].
func (a *reply) Write(p []byte) (int, error) {
	if a.WriteHeader(http.StatusOK); len(a.body)+len(p) > longestReply {
		return 0, errLongReply
	}
	a.body = append(a.body, p...)
	return len(p), nil
}

// refusal returns the client's error for an error reply.
func (a *reply) refusal() *refusal { return failed(a.header, a.status, a.body) }

// call sends an internal request along the client's route. Temporary failures of the server are
// returned as a *refusal.
func (v *visit) call(method, path, query string, body object) (*reply, error) {
	a := &reply{header: http.Header{}}
	q := v.request(httpx.Isolate(v.r, a), method, path, query, body)
	if err := v.next.ServeHTTP(a, q); err != nil {
		return nil, err
	}
	switch {
	case a.status == 0:
		return nil, &refusal{translate.Failure{
			Status:  http.StatusBadGateway,
			Message: httpx.Unreached[http.StatusBadGateway],
		}}
	case a.status >= 500 && a.status != http.StatusNotImplemented, a.status == http.StatusTooManyRequests,
		a.status == http.StatusUnauthorized, a.status == http.StatusConflict:
		return nil, a.refusal()
	}
	return a, nil
}

// request returns a request to the API that replaces r.
func (v *visit) request(r *http.Request, method, path, query string, body object) *http.Request {
	q := r.WithContext(r.Context())
	u := *r.URL
	u.Path, u.RawPath, u.RawQuery = v.base+path, "", query
	q.Method, q.URL, q.RequestURI = method, &u, u.RequestURI()
	q.Header = httpx.ClonePlain(r.Header)
	for _, name := range []string{
		"Content-Encoding", "Transfer-Encoding", "Content-Type", "Content-Length",
		"Idempotency-Key", "X-Idempotency-Key",
	} {
		q.Header.Del(name)
	}
	q.Header["Accept"] = []string{"application/json, text/event-stream"}
	q.TransferEncoding, q.ContentLength = nil, 0
	q.Body, q.GetBody = http.NoBody, nil
	if body != nil {
		raw := mustJSON(body)
		q.Header["Content-Type"] = []string{"application/json"}
		httpx.SetLength(q, len(raw))
		httpx.SetBody(q, raw)
	}
	return q
}

// failed returns the client's error for an error of the server.
func failed(h http.Header, status int, body []byte) *refusal {
	return &refusal{*httpx.ReadFailure(wire.OpenAIResponses, status, h, body)}
}
