// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package selfrequest

import (
	"bytes"
	"net/http"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// maxAnswer bounds the kept part of a response's body, in bytes.
const maxAnswer = 64 << 10

// Answer is the response to an internal request. It is also the response writer of that request.
type Answer struct {
	// Status is the final status, 0 if there was no response.
	Status int

	header http.Header
	body   bytes.Buffer
}

// Header implements [http.ResponseWriter].
func (a *Answer) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter].
func (a *Answer) WriteHeader(status int) {
	// Informational statuses do not count.
	if status >= http.StatusOK && a.Status == 0 {
		a.Status = status
	}
}

// Write implements [http.ResponseWriter].
func (a *Answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	// Discard the rest, so that the handler can finish.
	if room := maxAnswer - a.body.Len(); room > 0 {
		a.body.Write(b[:min(len(b), room)])
	}
	return len(b), nil
}

// Flush implements [http.Flusher].
func (a *Answer) Flush() {}

// Turn decodes the response, in a format.
func (a *Answer) Turn(f wire.Format) *wire.Turn {
	d := wire.NewDecoder(f, httpx.IsStream(httpx.MediaType(a.header.Get("Content-Type"))))
	d.Feed(a.body.Bytes())
	d.End()
	return d.Turn()
}
