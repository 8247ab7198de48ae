// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package letta

import (
	"cmp"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/relay"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// Site is a site in front of Letta.
type Site struct {
	engine  *retain.Engine
	headers bool // responses report how their requests went
	// With an agent for each conversation; options is nil otherwise.
	options *upstream.Agents
	agents  *Agents
	names   *tenant.Key // key of the agents' names at the server

	log *zap.Logger
	now func() time.Time
}

// Open returns the site of an upstream, nil for any other than Letta with its default format.
func Open(
	store *state.State, engines *relay.Engines, o *relay.Options, up *upstream.Profile, now func() time.Time,
) *Site {
	if up.Name() != "letta" || up.Format != "" {
		return nil
	}
	s := &Site{
		engine: engines.Of(driver{up.Agents != nil}), headers: up.Headers, log: up.Log, now: now, options: up.Agents,
	}
	if s.options != nil {
		s.agents = Of(store)
		key, err := s.agents.names()
		if err != nil {
			up.Log.Warn("agents of Letta are not found again after a restart", zap.Error(err))
		}
		s.names = &tenant.Key{Secret: key}
		s.agents.limit(cmp.Or(s.options.MaxAgents, upstream.DefaultMaxAgents), o.Life(), now)
	}
	return s
}

// Layer returns next behind the layer for Letta. of returns the conversation of a request, name is the client's
// name of its session, "" for none. A nil site returns next itself.
func (s *Site) Layer(next caddyhttp.Handler, of func(*http.Request) retain.Key, name string) caddyhttp.Handler {
	if s == nil {
		return next
	}
	return &talk{s, next, of, name}
}

type talk struct {
	*Site
	next caddyhttp.Handler
	of   func(*http.Request) retain.Key
	name string
}

// ServeHTTP implements caddyhttp.Handler. Requests in other formats are forwarded unmodified.
func (t *talk) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	p, ok := httpx.Whole(r)
	f, known := wire.Detect(r.Method, r.URL.Path)
	if !ok || !known || !f.Traits().FlatItems || httpx.Coding(r.Header) != "" {
		return t.next.ServeHTTP(w, r)
	}
	body := p.Bytes()
	var said *said
	var request *retain.Request
	var err error
	httpx.Guard(t.log, "reading a request for Letta", func() {
		if said, err = read(f, body); said != nil {
			request, err = said.request(t.options != nil)
		}
	})
	if why, ok := err.(refused); ok { //nolint:errorlint // it is never wrapped
		return httpx.Fail(w, f, &translate.Failure{
			Status: http.StatusBadRequest, Type: "invalid_request_error", Message: string(why),
		})
	}
	if request == nil {
		return t.next.ServeHTTP(w, r)
	}
	request.Mark = mark(r.Header)
	k, next := t.of(r), withoutOwnCalls(t.next)
	if t.options != nil {
		k.Conversation = said.begins() // an agent's system prompt may change
		next = &rest{t.Site, t.next, conversation{k.Side, k.Session, k.Conversation}, t.name}
	}
	if o, all := t.engine.Answered(k, request); o != nil {
		switch {
		case all: // there is nothing to answer
			return said.answer(w, o, "", t.now())
		case again(r.Header, o):
			return said.answer(w, o, o.Text, t.now())
		}
	}
	defer httpx.SwapBody(r, body, request.Body)()
	of := func(*http.Request, []byte) (retain.Key, *retain.Request) { return k, request }
	return relay.Layer(next, t.engine, t.headers, of, nil).ServeHTTP(w, r)
}
