// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package relay is the layer that sends requests to an upstream that retains conversations. It
// sends a request as a delta if package retain allows it, and whole, once, if the upstream turns
// out not to have retained the base.
package relay

import (
	"errors"
	"maps"
	"net/http"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
)

// headerHeld reports to the client how its request was sent upstream.
const headerHeld = "X-Llm-Cache-Held"

// relay is the layer.
type relay struct {
	next   caddyhttp.Handler
	engine *retain.Engine
	shows  bool
	of     func(r *http.Request, body []byte) (retain.Key, *retain.Request)
	heard  func(retain.Verdict)
}

// Layer returns next behind the relay, or next itself for an engine of nil. of returns the
// conversation of a request with the given body, and the request to retain, nil for none. shows
// adds a header for the client. heard gets the verdict on an answer before the client has all of
// it.
func Layer(
	next caddyhttp.Handler, e *retain.Engine, shows bool, of func(r *http.Request, body []byte) (retain.Key, *retain.Request), heard func(retain.Verdict),
) caddyhttp.Handler {
	if e == nil {
		return next
	}
	return &relay{next, e, shows, of, heard}
}

// form is the form in which a request is sent.
type form uint8

const (
	partial form = iota // the delta
	whole               // the whole request, to be retained
	plain               // the client's request, without retaining
)

// ServeHTTP implements caddyhttp.Handler. Bodies that are not in memory or have a content coding
// are forwarded unmodified.
func (l *relay) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	p, ok := httpx.Whole(r)
	if !ok || httpx.Coding(r.Header) != "" {
		return l.next.ServeHTTP(w, r)
	}
	k, request := l.of(r, p.Data)
	if request == nil {
		return l.next.ServeHTTP(w, r)
	}
	t := l.engine.Begin(k, request)
	defer t.End()
	at := whole
	switch {
	case t.Delta != nil:
		at = partial
	case t.Cause == retain.Refused && request.Plain != nil:
		at = plain
	}
	last := whole
	if request.Plain != nil {
		last = plain
	}
	for ; at < last; at++ {
		again := r.Clone(r.Context()) // the next pass must not see changes by next
		why, err := l.send(w, r, t, at, p.Data)
		if why == "" {
			return err
		}
		t.Miss(why)
		r = httpx.Isolate(again, w)
	}
	_, err := l.send(w, r, t, last, p.Data)
	return err
}

// send sends a request in a form. It returns the reason to send it in the next form, "" if the
// client has the response or needs none.
func (l *relay) send(w http.ResponseWriter, r *http.Request, t *retain.Turn, as form, body []byte) (why retain.Cause, err error) {
	header := r.Header
	defer func() { r.Header = header }()
	r.Header = maps.Clone(header)
	out := body
	switch as {
	case partial:
		out = t.Delta
	case whole:
		out = t.Request.Body
	}
	if as == partial || len(out) != len(body) {
		defer httpx.SwapBody(r, body, out)()
	}
	if base := t.Base; as != plain {
		if as == whole {
			base, out = nil, nil
		}
		l.engine.Driver().Dress(r.Header, t.Key, base, out)
	}
	a := newAnswer(w, l, t, as)
	if !a.judged() {
		return "", l.next.ServeHTTP(a, r)
	}
	a.Apart()
	defer func() {
		if a.sent || as != partial {
			return
		}
		if p := recover(); p == http.ErrAbortHandler { //nolint:errorlint // the very value
			why = a.cut()
		} else if p != nil {
			panic(p)
		}
	}()
	err = l.next.ServeHTTP(a, r)
	switch {
	case a.sent:
		return "", err
	case a.waits && err == nil:
		a.judge()
		if a.missed == "" {
			_, err = a.ResponseWriter.Write(a.held)
		}
		return a.missed, err
	case a.missed != "":
		return a.missed, nil
	case as != partial || r.Context().Err() != nil || isTimeout(err):
		return "", err
	case err == nil: // no response at all
		return "", nil
	}
	return a.cut(), nil
}

// isTimeout reports whether the upstream took too long: another attempt would take as long.
func isTimeout(err error) bool {
	e, ok := errors.AsType[caddyhttp.HandlerError](err)
	return ok && e.StatusCode == http.StatusGatewayTimeout
}

// answer is the writer of a response.
type answer struct {
	httpx.Answer
	relay  *relay
	turn   *retain.Turn
	as     form
	sent   bool // the client gets this response
	waits  bool // for the end of an error
	held   []byte
	missed retain.Cause
	ear    retain.Ear // observes a retained answer
}

func newAnswer(w http.ResponseWriter, l *relay, t *retain.Turn, as form) *answer {
	a := &answer{relay: l, turn: t, as: as}
	a.Answer = httpx.NewAnswer(w, a)
	return a
}

// judged reports whether the client may be spared an error by another attempt.
func (a *answer) judged() bool {
	return a.as == partial || a.as == whole && a.turn.Request.Plain != nil
}

// Begin implements [httpx.Interceptor].
func (a *answer) Begin(status int) {
	if a.judged() && status >= 400 {
		a.waits = true
		return
	}
	a.judge()
}

// judge evaluates the response, and sends the header if the response is for the client.
func (a *answer) judge() {
	a.waits = false
	h, good := a.Header(), a.Status/100 == 2
	v := a.relay.engine.Driver().Read(a.as == partial, a.Status, h, a.held)
	if a.missed = v.Missed; v.Refused && a.judged() {
		a.missed = retain.Refused
	}
	switch {
	case a.missed != "":
		return
	case a.as != plain:
		a.turn.Hold(v)
	case good:
		a.turn.Refuse()
	}
	if kind := httpx.MediaType(h.Get("Content-Type")); good && a.as != plain && httpx.Coding(h) == "" {
		a.ear = a.relay.engine.Driver().Hear(a.turn.Request, httpx.IsStream(kind))
	}
	if a.relay.shows {
		h[headerHeld] = []string{says(a.turn)}
	}
	a.sent = true
	a.Send()
}

// hear passes a piece of the answer to the observer. The observer's panics do not affect the
// client.
func (a *answer) hear(p []byte) {
	httpx.Guard(caddy.Log(), "listening to an answer", func() {
		v := a.ear.Feed(p)
		if v.Handle == "" {
			return
		}
		a.ear = nil
		a.turn.Hold(v)
		if a.relay.heard != nil {
			a.relay.heard(v)
		}
	})
}

// pass writes a piece of the answer to the client.
func (a *answer) pass(p []byte) (n int, err error) {
	if a.ear == nil || len(p) == 0 {
		return a.ResponseWriter.Write(p)
	}
	// Hold the last byte back until the observer is done: a client with the whole answer may
	// continue it at once.
	last := len(p) - 1
	if last > 0 {
		if n, err = a.ResponseWriter.Write(p[:last]); err != nil {
			return n, err
		}
	}
	a.hear(p)
	m, err := a.ResponseWriter.Write(p[last:])
	return n + m, err
}

// says returns the value of the header about the request's form.
func says(t *retain.Turn) string {
	whole := "; whole=" + strconv.Itoa(len(t.Request.Body))
	if t.Delta != nil {
		return "delta; sent=" + strconv.Itoa(len(t.Delta)) + whole
	}
	return "whole; cause=" + string(t.Cause) + whole
}

// cut returns the reason why the upstream did not answer a delta completely.
func (a *answer) cut() retain.Cause {
	if a.missed != "" {
		return a.missed
	}
	return retain.Cut
}

// Take implements [httpx.Interceptor].
func (a *answer) Take(p []byte) (int, error) {
	switch {
	case a.missed != "":
		return len(p), nil
	case !a.waits:
		return a.pass(p)
	}
	a.held = append(a.held, p...)
	if len(a.held) <= httpx.MaxError {
		return len(p), nil
	}
	a.judge()
	if a.missed == "" {
		if _, err := a.ResponseWriter.Write(a.held); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Holds implements [httpx.Interceptor].
func (a *answer) Holds() bool { return !a.sent }
