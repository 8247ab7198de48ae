// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package httpx

import (
	"io"
	"maps"
	"net/http"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Answer is the base of the response writers by which layers see an answer. It has
// what is the same for all of them: only the first final status counts, 200 if none
// is said; informational ones pass; nothing gets round [Interceptor.Take], and
// nothing that is held is flushed.
type Answer struct {
	// ResponseWriter is the writer of whoever asked this layer.
	http.ResponseWriter
	// Own is the header apart from that of ResponseWriter, as long as it is not
	// settled whose answer the client will get. Nil: there is one only.
	Own http.Header
	// Status is the final status, 0 before there is one.
	Status int

	layer Interceptor
}

// Interceptor is what a layer does with an answer.
type Interceptor interface {
	// Begin is told of the final status, once. It calls [Answer.Send], or holds the
	// header back.
	Begin(status int)
	// Take takes the next bytes of the body.
	Take(p []byte) (int, error)
	// Holds reports whether the client is to get nothing of the answer yet.
	Holds() bool
}

// NewAnswer returns the base of a layer's writer.
func NewAnswer(w http.ResponseWriter, layer Interceptor) Answer {
	return Answer{ResponseWriter: w, layer: layer}
}

// Unwrap returns the writer behind, for [http.ResponseController].
func (a *Answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Apart gives the answer a header of its own, which begins as the other one is.
func (a *Answer) Apart() { a.Own = a.ResponseWriter.Header().Clone() }

// Join ends that.
func (a *Answer) Join() {
	if a.Own != nil {
		ReplaceHeader(a.ResponseWriter.Header(), a.Own)
		a.Own = nil
	}
}

// Send sends the header on, with the status that the answer has.
func (a *Answer) Send() {
	a.Join()
	a.ResponseWriter.WriteHeader(a.Status)
}

// Header implements [http.ResponseWriter].
func (a *Answer) Header() http.Header {
	if a.Own != nil {
		return a.Own
	}
	return a.ResponseWriter.Header()
}

// WriteHeader implements [http.ResponseWriter].
func (a *Answer) WriteHeader(status int) {
	switch {
	case status < http.StatusOK:
		a.Inform(status)
	case a.Status == 0:
		a.Status = status
		a.layer.Begin(status)
	}
}

// Inform passes an informational status on, with the header as it stands.
func (a *Answer) Inform(status int) {
	if a.Own == nil {
		a.ResponseWriter.WriteHeader(status)
		return
	}
	h := a.ResponseWriter.Header()
	before := maps.Clone(h)
	ReplaceHeader(h, a.Own)
	a.ResponseWriter.WriteHeader(status)
	ReplaceHeader(h, before)
}

// Write implements [io.Writer].
func (a *Answer) Write(p []byte) (int, error) {
	if a.Status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	return a.layer.Take(p)
}

// ReadFrom hides that of the writer behind, which would get round Write.
func (a *Answer) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{a}, r)
}

// FlushError implements what [http.ResponseController] looks for.
func (a *Answer) FlushError() error {
	if a.Status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if a.layer.Holds() {
		return nil
	}
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Waited tells whoever asked for the answer how long the request has waited for a
// slot: that is no time of the upstream's.
func (a *Answer) Waited(d time.Duration) { Waited(a.ResponseWriter, d) }

// Waited tells the writer of an answer how long its request has waited for a slot.
func Waited(w http.ResponseWriter, d time.Duration) {
	if t, ok := w.(interface{ Waited(time.Duration) }); ok {
		t.Waited(d)
	}
}

// Served tells whoever asked for the answer how the upstream says that it serves the
// request.
func (a *Answer) Served(s wire.Service) { Served(a.ResponseWriter, s) }

// Served tells the writer of an answer how the upstream says that it serves the request.
func Served(w http.ResponseWriter, s wire.Service) {
	if t, ok := w.(interface{ Served(wire.Service) }); ok {
		t.Served(s)
	}
}

// Common tells whoever asked for the answer which share of its prompt, 0 to 1, the
// upstream has been sent before.
func (a *Answer) Common(share float64) { Common(a.ResponseWriter, share) }

// Common tells the writer of an answer which share of its prompt the upstream has been
// sent before.
func Common(w http.ResponseWriter, share float64) {
	if t, ok := w.(interface{ Common(float64) }); ok {
		t.Common(share)
	}
}

// ReplaceHeader makes one header what another is.
func ReplaceHeader(dst, src http.Header) {
	clear(dst)
	maps.Copy(dst, src)
}
