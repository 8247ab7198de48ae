// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

// Kept serves requests about resources beside answers: stored responses, batches, files. A provider's
// own API gets them untouched. Where requests for answers are translated no provider stores responses,
// and the upstream's errors about other resources are translated.

import (
	"net/http"
	"strconv"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/resource"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// resourceLayer returns next with the treatment of a request about a resource before it. forget drops a
// deleted answer from our memories, and reports whether it was held nowhere else.
func resourceLayer(next caddyhttp.Handler, up *upstream.Profile, of resource.Resource, forget func() bool) caddyhttp.Handler {
	return &served{next, up, of, forget}
}

type served struct {
	next   caddyhttp.Handler
	up     *upstream.Profile
	of     resource.Resource
	forget func() bool
}

// ServeHTTP implements caddyhttp.Handler.
func (s *served) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	to, deletes := s.up.Target(s.of.Format), s.of.Deletes(r.Method)
	if to != s.of.Format && s.of.Unkept() {
		if deletes && s.forget() {
			return s.gone(w)
		}
		return httpx.Fail(w, s.of.Format, &translate.Failure{Status: http.StatusNotFound, Message: s.of.Missing, Modelless: true})
	}
	next := s.next
	if r.Method != http.MethodPost { // which is signed as work for the upstream
		next = s.up.Sign(next)
	}
	if to == s.of.Format && !deletes {
		return next.ServeHTTP(w, r)
	}
	a := &answer{served: s, to: to, deletes: deletes}
	a.Answer = httpx.NewAnswer(w, a)
	if err := next.ServeHTTP(a, r); err != nil {
		return err
	}
	return a.finish()
}

// gone says that an answer was deleted.
func (s *served) gone(w http.ResponseWriter) error {
	body, h := s.of.Deleted(), w.Header()
	httpx.DropCoded(h)
	h["Content-Type"], h["Content-Length"] = []string{"application/json"}, []string{strconv.Itoa(len(body))}
	w.WriteHeader(http.StatusOK)
	_, err := w.Write(body)
	return err
}

// answer is the writer of the upstream's answer. A deleted response is forgotten before the client
// learns of it: the client may ask for it at once.
type answer struct {
	httpx.Answer
	*served
	to      wire.Format
	deletes bool
	held    []byte // an error that is to be said in other words
	fails   bool
	ours    bool // it was deleted, though the upstream does not know of it
}

// Begin implements [httpx.Interceptor].
func (a *answer) Begin(status int) {
	if a.deletes && (status/100 == 2 || status == http.StatusNotFound) {
		a.ours = a.forget() && status == http.StatusNotFound && a.of.Deleted() != nil
	}
	if a.fails = status >= http.StatusBadRequest && a.to != a.of.Format; !a.fails && !a.ours {
		a.Send()
	}
}

// Holds implements [httpx.Interceptor].
func (a *answer) Holds() bool { return a.fails || a.ours }

// Take implements [httpx.Interceptor].
func (a *answer) Take(p []byte) (int, error) {
	if !a.Holds() {
		return a.ResponseWriter.Write(p)
	}
	if room := httpx.MaxError - len(a.held); room > 0 {
		a.held = append(a.held, p[:min(len(p), room)]...)
	}
	return len(p), nil
}

// finish gives the client an answer that was held.
func (a *answer) finish() error {
	switch h := a.Header(); {
	case a.ours:
		return a.gone(a.ResponseWriter)
	case a.fails:
		body, err := httpx.Decode(httpx.Coding(h), a.held, 16*httpx.MaxError, nil)
		if err != nil {
			body = nil
		}
		httpx.DropCoded(h)
		f := translate.ReadFailure(a.to, a.Status, body)
		f.Modelless = true
		return httpx.Fail(a.ResponseWriter, a.of.Format, f)
	}
	return nil
}
