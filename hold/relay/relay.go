// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

// Package relay is the layer by which requests go to an upstream that holds
// conversations: as a delta where package hold says so, and whole, once, where the
// upstream turns out not to hold what it was thought to.
package relay

import (
	"errors"
	"maps"
	"net/http"
	"strconv"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/hold"
	"github.com/caddy-llm-cache/caddy-llm-cache/layer"
)

// headerHeld tells the client how its request went upstream.
const headerHeld = "X-Llm-Cache-Held"

// relay is the layer.
type relay struct {
	next   caddyhttp.Handler
	engine *hold.Engine
	shows  bool
	key    func(*http.Request) hold.Key
}

// Layer returns next with it before, for a request of the conversation that key names.
// shows has answers tell the client. An engine of nil returns next itself.
func Layer(next caddyhttp.Handler, e *hold.Engine, shows bool, key func(*http.Request) hold.Key) caddyhttp.Handler {
	if e == nil {
		return next
	}
	return &relay{next, e, shows, key}
}

// ServeHTTP implements caddyhttp.Handler. What does not lie in memory, and what has a
// content coding, passes.
func (l *relay) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	p, ok := layer.Whole(r)
	if !ok || layer.Coding(r.Header) != "" {
		return l.next.ServeHTTP(w, r)
	}
	t := l.engine.Begin(l.key(r), &hold.Request{Body: p.Data})
	defer t.End()
	if t.Delta == nil {
		return l.whole(w, r, t)
	}
	original := r.Clone(r.Context()) // what next does to r must not show in a second pass
	why, err := l.delta(w, r, t)
	if why == "" {
		return err
	}
	t.Miss(why)
	return l.whole(w, layer.Isolate(original, w), t)
}

// whole sends a request as it is.
func (l *relay) whole(w http.ResponseWriter, r *http.Request, t *hold.Turn) error {
	header := r.Header
	defer func() { r.Header = header }()
	r.Header = maps.Clone(header)
	l.engine.Driver().Dress(r.Header, t.Key, nil, nil)
	return l.next.ServeHTTP(newAnswer(w, l, t), r)
}

// delta sends what is new. It returns why the upstream did not take it; the client has
// been sent nothing then.
func (l *relay) delta(w http.ResponseWriter, r *http.Request, t *hold.Turn) (why hold.Cause, err error) {
	defer layer.ReplaceOutgoing(r, t.Request.Body, t.Delta)()
	l.engine.Driver().Dress(r.Header, t.Key, t.Base, t.Delta)
	a := newAnswer(w, l, t)
	a.Apart()
	defer func() {
		if a.sent {
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
	case r.Context().Err() != nil || isTimeout(err):
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
	layer.Answer
	relay  *relay
	turn   *hold.Turn
	sent   bool // the client gets it
	waits  bool // for the end of an error, to be judged by
	held   []byte
	missed hold.Cause
}

func newAnswer(w http.ResponseWriter, l *relay, t *hold.Turn) *answer {
	a := &answer{relay: l, turn: t}
	a.Answer = layer.NewAnswer(w, a)
	return a
}

// Begin implements [layer.Interceptor].
func (a *answer) Begin(status int) {
	if a.turn.Delta != nil && status >= 400 {
		a.waits = true
		return
	}
	a.judge()
}

// judge finds out what the answer means, and sends its header if it is the client's.
func (a *answer) judge() {
	a.waits = false
	h := a.Header()
	v := a.relay.engine.Driver().Read(a.turn.Delta != nil, a.Status, h, a.held)
	if a.missed = v.Missed; a.missed != "" {
		return
	}
	a.turn.Hold(v)
	if a.relay.shows {
		h[headerHeld] = []string{says(a.turn)}
	}
	a.sent = true
	a.Send()
}

// says tells how a request went.
func says(t *hold.Turn) string {
	whole := "; whole=" + strconv.Itoa(len(t.Request.Body))
	if t.Delta != nil {
		return "delta; sent=" + strconv.Itoa(len(t.Delta)) + whole
	}
	return "whole; cause=" + string(t.Cause) + whole
}

// cut is why the upstream has not taken a delta whose answer broke off.
func (a *answer) cut() hold.Cause {
	if a.missed != "" {
		return a.missed
	}
	return hold.Cut
}

// Take implements [layer.Interceptor].
func (a *answer) Take(p []byte) (int, error) {
	switch {
	case a.missed != "":
		return len(p), nil
	case !a.waits:
		return a.ResponseWriter.Write(p)
	}
	a.held = append(a.held, p...)
	if len(a.held) <= layer.MaxError {
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

// Holds implements [layer.Interceptor].
func (a *answer) Holds() bool { return !a.sent }
