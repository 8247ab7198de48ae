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

// maxReply bounds a response to an internal request, in bytes. Agents are listed with all tools and blocks.
const maxReply = 8 << 20

var errLongReply = errors.New("letta: the answer of the server is too long")

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
	if a.WriteHeader(http.StatusOK); len(a.body)+len(p) > maxReply {
		return 0, errLongReply
	}
	a.body = append(a.body, p...)
	return len(p), nil
}

func (a *reply) refusal() *refusal { return failed(a.header, a.status, a.body) }

// call sends an internal request along the client's route.
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
	// Temporary failures are the client's to repeat. Others tell which endpoints the server has.
	case a.status >= 500 && a.status != http.StatusNotImplemented, a.status == http.StatusTooManyRequests,
		a.status == http.StatusUnauthorized, a.status == http.StatusConflict:
		return nil, a.refusal()
	}
	return a, nil
}

func (v *visit) request(r *http.Request, method, path, query string, body object) *http.Request {
	q := r.WithContext(r.Context())
	u := *r.URL
	u.Path, u.RawPath, u.RawQuery = v.base+path, "", query
	q.Method, q.URL, q.RequestURI = method, &u, u.RequestURI()
	q.Header = httpx.ClonePlain(r.Header)
	// They describe the client's body, or would make the server repeat an earlier response.
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

func failed(h http.Header, status int, body []byte) *refusal {
	return &refusal{*httpx.ReadFailure(wire.OpenAIResponses, status, h, body)}
}
