// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package relay is the layer by which requests go to an upstream that holds
// conversations: as a delta where package hold says so, and whole, once, where the
// upstream turns out not to hold what it was thought to.
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

// headerHeld tells the client how its request went upstream.
const headerHeld = "X-Llm-Cache-Held"

// relay is the layer.
type relay struct {
	next   caddyhttp.Handler
	engine *retain.Engine
	shows  bool
	of     func(r *http.Request, body []byte) (retain.Key, *retain.Request)
	heard  func(retain.Verdict)
}

// Layer returns next with it before. of says of which conversation a request with a body
// is, and what is to be held of it: nothing of a nil one. shows has answers tell the
// client, and heard is told what is held of an answer before the client has all of it. An
// engine of nil returns next itself.
func Layer(
	next caddyhttp.Handler, e *retain.Engine, shows bool, of func(r *http.Request, body []byte) (retain.Key, *retain.Request), heard func(retain.Verdict),
) caddyhttp.Handler {
	if e == nil {
		return next
	}
	return &relay{next, e, shows, of, heard}
}

// form is how much of a request goes out.
type form uint8

const (
	partial form = iota // what is new
	whole               // all of it, to be held
	plain               // all of it, as if nothing were ever held
)

// ServeHTTP implements caddyhttp.Handler. What does not lie in memory, and what has a
// content coding, passes.
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
		again := r.Clone(r.Context()) // what next does to r must not show in a second pass
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

// send sends a request in a form, and returns why it is to be sent in the next one; ""
// if the client has the answer, or needs none.
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
	case err == nil: // no answer at all
		return "", nil
	}
	return a.cut(), nil
}

// isTimeout reports whether the upstream took too long: to ask again would take as long.
func isTimeout(err error) bool {
	e, ok := errors.AsType[caddyhttp.HandlerError](err)
	return ok && e.StatusCode == http.StatusGatewayTimeout
}

// answer is the writer of an answer.
type answer struct {
	httpx.Answer
	relay  *relay
	turn   *retain.Turn
	as     form
	sent   bool // the client gets it
	waits  bool // for the end of an error, to be judged by
	held   []byte
	missed retain.Cause
	ear    retain.Ear // listens to what is held
}

func newAnswer(w http.ResponseWriter, l *relay, t *retain.Turn, as form) *answer {
	a := &answer{relay: l, turn: t, as: as}
	a.Answer = httpx.NewAnswer(w, a)
	return a
}

// judged reports whether an error may be none for the client.
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

// judge finds out what the answer means, and sends its header if it is the client's.
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

// hear listens to a piece of the answer. What goes wrong there is not the client's
// business.
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

// pass gives the client a piece of the answer. Where somebody listens, the last byte waits
// for that: who has the end of an answer may go on from it at once.
func (a *answer) pass(p []byte) (n int, err error) {
	if a.ear == nil || len(p) == 0 {
		return a.ResponseWriter.Write(p)
	}
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

// says tells how a request went.
func says(t *retain.Turn) string {
	whole := "; whole=" + strconv.Itoa(len(t.Request.Body))
	if t.Delta != nil {
		return "delta; sent=" + strconv.Itoa(len(t.Delta)) + whole
	}
	return "whole; cause=" + string(t.Cause) + whole
}

// cut is why the upstream has not taken a delta whose answer broke off.
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
