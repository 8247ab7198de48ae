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

// headerRetained reports to the client how its request was sent upstream.
const headerRetained = "X-Llm-Cache-Retained"

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
	next caddyhttp.Handler, e *retain.Engine, shows bool,
	of func(r *http.Request, body []byte) (retain.Key, *retain.Request), heard func(retain.Verdict),
) caddyhttp.Handler {
	if e == nil {
		return next
	}
	return &relay{next, e, shows, of, heard}
}

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
	body := p.Bytes()
	k, request := l.of(r, body)
	if request == nil {
		return l.next.ServeHTTP(w, r)
	}
	t := l.engine.Begin(k, request)
	defer t.End()
	s := &sending{relay: l, turn: t, body: body, as: whole, last: whole}
	s.Answer = httpx.NewAnswer(w, s)
	if request.Plain != nil {
		s.last = plain
	}
	switch {
	case t.Delta != nil:
		s.as = partial
	case t.Cause == retain.Refused:
		s.as = s.last
	}
	by := attempts{s}
	if s.as == s.last {
		_, err := httpx.NewAttempt(s, by).Serve(by, r)
		return err
	}
	return httpx.Retry(s, r, by)
}

// sending is a request in one form after the other, and the writer of the client's answer.
type sending struct {
	httpx.Answer
	*relay
	turn     *retain.Transfer
	body     []byte // the client's
	as, last form
	ear      retain.Ear // observes a retained answer
}

type attempts struct{ *sending }

// ServeHTTP implements [httpx.Retrier]. It sends the request in the present form.
func (s attempts) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	header := r.Header
	defer func() { r.Header = header }()
	r.Header = maps.Clone(header)
	as, out := s.as, s.body
	switch as {
	case partial:
		out = s.turn.Delta
	case whole:
		out = s.turn.Request.Body
	}
	if as == partial || len(out) != len(s.body) {
		defer httpx.SwapBody(r, s.body, out)()
	}
	if base := s.turn.Base; as != plain {
		if as == whole {
			base, out = nil, nil
		}
		s.engine.Driver().Dress(r.Header, s.turn.Key, base, out)
	}
	return s.next.ServeHTTP(w, r)
}

// Judge implements [httpx.Judge].
func (s attempts) Judge(a *httpx.Attempt) httpx.Verdict {
	final := s.as == s.last
	switch {
	// A timeout would only repeat itself with the whole request.
	case a.Err != nil && s.as == partial && !isTimeout(a.Err):
		return s.miss(retain.Cut)
	case a.Err != nil, a.Status == 0:
		return httpx.Accept
	case !final && a.Status >= 400 && !a.Gathered:
		return httpx.Wait
	}
	h := a.Header()
	v := s.engine.Driver().Read(s.as == partial, a.Status, h, a.Body)
	switch {
	case v.Refused && !final:
		return s.miss(retain.Refused)
	case v.Missed != "" && !final:
		return s.miss(v.Missed)
	case s.as != plain:
		s.turn.Retain(v)
	case a.Status/100 == 2:
		s.turn.Refuse()
	}
	if s.shows {
		h[headerRetained] = []string{says(s.turn)}
	}
	return httpx.Accept
}

func (s *sending) miss(why retain.Cause) httpx.Verdict {
	s.turn.Miss(why)
	s.as++
	return httpx.Reject
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[caddyhttp.HandlerError](err)
	return ok && e.StatusCode == http.StatusGatewayTimeout
}

func says(t *retain.Transfer) string {
	whole := "; whole=" + strconv.Itoa(len(t.Request.Body))
	if t.Delta != nil {
		return "delta; sent=" + strconv.Itoa(len(t.Delta)) + whole
	}
	return "whole; cause=" + string(t.Cause) + whole
}

// Begin implements [httpx.Receiver].
func (s *sending) Begin(status int) {
	h := s.Header()
	if kind := httpx.MediaType(h.Get("Content-Type")); status/100 == 2 && s.as != plain && httpx.Coding(h) == "" {
		s.ear = s.engine.Driver().Hear(s.turn.Request, httpx.IsStream(kind))
	}
	s.Send()
}

// Take implements [httpx.Receiver].
func (s *sending) Take(p []byte) (n int, err error) {
	if s.ear == nil || len(p) == 0 {
		return s.ResponseWriter.Write(p)
	}
	// Keep the last byte back until the observer is done: a client with the whole answer may continue it at once.
	last := len(p) - 1
	if last > 0 {
		if n, err = s.ResponseWriter.Write(p[:last]); err != nil {
			return n, err
		}
	}
	s.hear(p)
	m, err := s.ResponseWriter.Write(p[last:])
	return n + m, err
}

// hear passes a piece of the answer to the observer.
func (s *sending) hear(p []byte) {
	// The observer's panics must not affect the client.
	httpx.Guard(caddy.Log(), "listening to an answer", func() {
		v := s.ear.Feed(p)
		if v.Handle == "" {
			return
		}
		s.ear = nil
		s.turn.Retain(v)
		if s.heard != nil {
			s.heard(v)
		}
	})
}

// Buffering implements [httpx.Receiver].
func (*sending) Buffering() bool { return false }
