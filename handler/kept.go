// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

// Kept serves requests about resources beside answers: stored responses, batches, files. A provider's
// own API gets them untouched. Where requests for answers are translated no provider stores responses,
// and the upstream's errors about other resources are translated.

import (
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/resource"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// resourceLayer returns next with the treatment of a request about a resource before it. forget drops a deleted
// response from our memories, and reports whether it was stored nowhere else.
func resourceLayer(
	next caddyhttp.Handler, up *upstream.Profile, of resource.Resource, forget func() bool,
) caddyhttp.Handler {
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
		return httpx.Fail(w, s.of.Format, &translate.Failure{
			Status: http.StatusNotFound, Message: s.of.Missing,
			Modelless: true,
		})
	}
	next := s.next
	if r.Method != http.MethodPost { // which is signed as work for the upstream
		next = s.up.Sign(next)
	}
	if to == s.of.Format && !deletes {
		return next.ServeHTTP(w, r)
	}
	v := &verdict{served: s, to: to, deletes: deletes}
	a := httpx.NewAttempt(w, v)
	rejected, err := a.Serve(next, r)
	if !rejected {
		return err
	}
	a.Join() // the upstream's header, but for its description of the body
	if v.ours {
		return s.gone(w)
	}
	f := httpx.ReadFailure(to, a.Status, w.Header(), a.Body)
	f.Modelless = true
	httpx.DropCoded(w.Header())
	return httpx.Fail(w, s.of.Format, f)
}

func (s *served) gone(w http.ResponseWriter) error {
	return httpx.Respond(w, http.StatusOK, "application/json", s.of.Deleted())
}

// verdict judges the upstream's answer. A deleted response is forgotten before the client learns of
// it: the client may ask for it at once.
type verdict struct {
	*served
	to      wire.Format
	deletes bool
	ours    bool // it was deleted, though the upstream does not know of it
}

// Judge implements [httpx.Judge]. It rejects errors that are to be said in other words.
func (v *verdict) Judge(a *httpx.Attempt) httpx.Verdict {
	switch {
	case a.Status == 0, a.Err != nil && !errors.Is(a.Err, http.ErrAbortHandler):
		return httpx.Accept
	case a.Gathered:
		return httpx.Reject
	case v.deletes && (a.Status/100 == 2 || a.Status == http.StatusNotFound):
		v.ours = v.forget() && a.Status == http.StatusNotFound && v.of.Deleted() != nil
	}
	switch {
	case v.ours:
		return httpx.Reject
	case a.Status >= http.StatusBadRequest && v.to != v.of.Format:
		return httpx.Wait
	}
	return httpx.Accept
}

// forgets returns a function that drops a deleted answer from all memories, and reports whether it was
// kept nowhere else. It must be called before r is changed.
func (o *site) forgets(r *http.Request, x *resource.Resource) func() bool {
	var all []func() bool
	for _, f := range o.features {
		if f.Forget != nil {
			all = append(all, f.Forget(r, x))
		}
	}
	return func() (ours bool) {
		for _, forget := range all {
			ours = forget() || ours
		}
		return ours
	}
}
