// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package selfrequest sends internal requests through a site, on the path of an earlier client
// request: pings, warm-ups, background folds.
package selfrequest

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Kind is the purpose of an internal request. Values may be combined to a set.
type Kind uint8

// The kinds of internal requests.
const (
	Ping   Kind = 1 << iota // to keep a cache entry alive
	WarmUp                  // for a local server to read a shared prefix
	Fold                    // for a local server to read a folded history
)

// Request is one internal request.
type Request struct {
	Kind
	*Target
	// Session is the public id of its session, and Tenant the session's tenant; empty for none.
	Session string
	// Tenant: see Session.
	Tenant sessioncache.Tenant
	// Adapt adapts the request to the handler that it has reached. It returns the body to send, nil
	// for the target's body. Optional.
	Adapt func(s *Site, r *http.Request) ([]byte, error)
	// Bare skips the handler's layers.
	Bare bool
	// Tokens estimates the tokens that the upstream has to read, 0 if unknown.
	Tokens int

	way     passed
	site    *Site // the handler that it has reached
	request *http.Request
	status  int
}

// Site is a handler as an internal request sees it.
type Site struct {
	// Sends are the kinds that the handler forwards, Logged the kinds that appear in the access
	// log.
	Sends, Logged Kind
	// Upstream is the profile of the handler's upstream.
	Upstream *upstream.Profile
	// Layers returns the layers for an internal request, followed by Next.
	Layers func(e *Request) caddyhttp.Handler
	// Next is the handler after the layers.
	Next caddyhttp.Handler
	// Record records an internal request with its usage. r identifies the user.
	Record func(r *http.Request, rec *audit.Record, u wire.Usage)
}

// key marks the context of an internal request. A header could be forged.
type key struct{}

// Of returns the internal request behind r, nil if r came from a client.
func Of(r *http.Request) *Request {
	e, _ := r.Context().Value(key{}).(*Request)
	return e
}

// Arrive forwards an internal request that has reached a handler.
func (e *Request) Arrive(w http.ResponseWriter, r *http.Request, s *Site) error {
	if s.Logged&e.Kind == 0 {
		caddyhttp.SetVar(r.Context(), caddyhttp.LogSkipVar, true)
	}
	// Handlers before the target's pass it on.
	if !e.Arrived() && !e.leads(r, s) {
		return s.Next.ServeHTTP(w, r)
	}
	// No handler on the path forwards this kind, or one has done so already.
	if e.way.sends&e.Kind == 0 || e.Arrived() {
		return caddyhttp.Error(http.StatusNotFound, ErrUnreached)
	}
	e.site, e.request = s, r
	var body []byte
	var err error
	if e.Adapt != nil {
		body, err = e.Adapt(s, r)
	}
	if err == nil && body == nil {
		body, err = e.Plain()
	}
	if err != nil {
		return caddyhttp.Error(http.StatusInternalServerError, err)
	}
	next := s.Next
	if !e.Bare {
		next = s.Layers(e)
	}
	httpx.SetBody(r, body)
	httpx.SetLength(r, len(body))
	// Answer.Turn reads the response.
	httpx.AskPlain(r.Header)
	return next.ServeHTTP(w, r)
}

// Arrived reports whether the request has reached a handler that forwards it.
func (e *Request) Arrived() bool { return e.site != nil }

// Record records an internal request, if it has arrived, with its usage. The caller sets time,
// purpose and cost.
func (e *Request) Record(rec *audit.Record, u wire.Usage, completed bool) {
	if !e.Arrived() {
		return
	}
	rec.ID, rec.Turns, rec.Session = audit.NewID(rec.At), 1, e.Session
	rec.Outcome, rec.Status, rec.Total = audit.Completed, e.status, time.Since(rec.At)
	if !completed {
		rec.Outcome = audit.Failed
	}
	e.site.Record(e.request, rec, u)
}

// Sender sends internal requests through the present configuration.
type Sender struct {
	mu      sync.Mutex
	servers func(name string) http.Handler // nil without a configuration
	life    context.Context                //nolint:containedctx // ends with the last configuration
	end     context.CancelFunc
}

// Use sets the present configuration, by its HTTP servers. servers returns nil for an unknown name.
func (c *Sender) Use(servers func(name string) http.Handler) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers = servers
	// Internal requests survive a reload.
	if c.life == nil {
		c.life, c.end = context.WithCancel(context.Background())
	}
}

// Stop cancels all internal requests, because the last configuration has ended.
func (c *Sender) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.servers = nil; c.life != nil {
		c.end()
		c.life, c.end = nil, nil
	}
}

// Running returns the context of internal requests, which ends with the last configuration; nil
// without a configuration.
func (c *Sender) Running() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.life
}

func (c *Sender) server(name string) http.Handler {
	c.mu.Lock()
	servers := c.servers
	c.mu.Unlock()
	if servers == nil {
		return nil
	}
	return servers(name)
}

// Send sends an internal request through the site to its handler, and returns the response.
func (c *Sender) Send(ctx context.Context, e *Request) (a *Answer, err error) {
	defer func() {
		if p := recover(); p != nil { // an aborted response, or a failing handler on the path
			a, err = nil, ErrUnreached
			if e, ok := p.(error); !ok || !errors.Is(e, http.ErrAbortHandler) {
				httpx.Panicked("sending a request of ours", p)
			}
		}
	}()
	r, err := e.Target.request(context.WithValue(ctx, key{}, e))
	if err != nil {
		return nil, err
	}
	a = &Answer{header: http.Header{}}
	srv := c.server(e.Server)
	if srv == nil {
		return nil, ErrUnreached
	}
	srv.ServeHTTP(a, r)
	e.status = a.Status
	if !e.Arrived() {
		return a, ErrUnreached // another handler of the site has answered
	}
	return a, nil
}

// Path is the path of a request through this module's handlers. The zero value means that the
// forwarding handler is the first one.
type Path struct {
	// Behind is the number of earlier handlers of this module. They must not edit an internal
	// request, because its body already has their edits.
	Behind int `json:"behind,omitempty"`
	// Path is the URL path after the earlier handlers' rewrites.
	Path string `json:"path,omitempty"`
}

// behindVar counts the handlers that a request has passed.
const behindVar = "llm_handlers"

// Passing returns the path of a client's request so far, and counts the present handler. Each
// handler sets the request's conversation before it calls the next one.
func Passing(r *http.Request) (w Path) {
	ctx := r.Context()
	if caddyhttp.GetVar(ctx, "llm_conversation") == nil {
		return w
	}
	before, _ := caddyhttp.GetVar(ctx, behindVar).(int)
	w = Path{Behind: before + 1, Path: r.URL.Path}
	caddyhttp.SetVar(ctx, behindVar, w.Behind)
	return w
}

// leads reports whether the present handler is the last one on the path. It forwards all kinds that
// an earlier handler would.
func (e *Request) leads(r *http.Request, s *Site) bool {
	e.way.sends |= s.Sends
	if e.way.behind < e.Way.Behind {
		e.way.behind++
		return false
	}
	if e.Way.Behind > 0 {
		r.URL.Path, r.URL.RawPath = e.Way.Path, ""
	}
	return true
}

// passed is the part of the path that is already covered.
type passed struct {
	behind int
	sends  Kind
}
