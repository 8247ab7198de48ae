// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package selfrequest takes requests of our own through a site, the way that a client's
// request took before: pings, warm-ups, idle folds.
package selfrequest

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Kind is why an errand is sent. Values may be joined to a set.
type Kind uint8

// The kinds of errands.
const (
	Ping   Kind = 1 << iota // to keep a cache alive
	WarmUp                  // for a box to read a base
	Fold                    // for a box to read a folded history
)

// Errand is one request of ours.
type Errand struct {
	Kind
	*Target
	// Session is the public id of the session that it belongs to, Tenant whose that is;
	// empty for none.
	Session string
	// Tenant: see Session.
	Tenant sessioncache.Tenant
	// Adapt makes of the request what it is to be once it has come to a handler, and
	// returns the body to send, nil for that of the target. Nil changes nothing.
	Adapt func(s *Site, r *http.Request) ([]byte, error)
	// Bare sends it on past the layers.
	Bare bool

	way     passed
	site    *Site // that it came to
	request *http.Request
	status  int
}

// Site is what an errand needs to know of the handler that it comes to.
type Site struct {
	// Sends are the kinds that it sends on, Logged those that stand in the access log.
	Sends, Logged Kind
	// Upstream is what stands behind.
	Upstream *upstream.Profile
	// Layers returns the layers that an errand passes, with what is behind them.
	Layers func(e *Errand) caddyhttp.Handler
	// Next is what is behind them.
	Next caddyhttp.Handler
	// Record puts an errand on record, of whoever r is, with what the upstream reported.
	Record func(r *http.Request, rec *audit.Record, u wire.Usage)
}

// key marks the context of an errand. A header could be forged.
type key struct{}

// Of returns the errand that a request is, nil if it is none.
func Of(r *http.Request) *Errand {
	e, _ := r.Context().Value(key{}).(*Errand)
	return e
}

// Arrive sends the errand on, which has come to a handler.
func (e *Errand) Arrive(w http.ResponseWriter, r *http.Request, s *Site) error {
	if s.Logged&e.Kind == 0 {
		caddyhttp.SetVar(r.Context(), caddyhttp.LogSkipVar, true)
	}
	if !e.Arrived() && !e.leads(r, s) {
		return s.Next.ServeHTTP(w, r)
	}
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
	httpx.AskPlain(r.Header)
	return next.ServeHTTP(w, r)
}

// Arrived reports whether the errand has come to a handler that sends it on.
func (e *Errand) Arrived() bool { return e.site != nil }

// Record puts the errand on record, if it has arrived, with what the upstream reported.
// When it was sent, what for and what it cost are the caller's to say.
func (e *Errand) Record(rec *audit.Record, u wire.Usage, completed bool) {
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

// Carrier takes errands through the configuration that is in force when they are due.
type Carrier struct {
	mu      sync.Mutex
	servers func(name string) *caddyhttp.Server // nil while no configuration is in force
	life    context.Context                     //nolint:containedctx // of errands: as long as there is a configuration
	end     context.CancelFunc
}

// Use makes a configuration the one in force, by its HTTP servers.
func (c *Carrier) Use(servers func(name string) *caddyhttp.Server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers = servers
	if c.life == nil {
		c.life, c.end = context.WithCancel(context.Background())
	}
}

// Stop ends all errands: there is no configuration any more.
func (c *Carrier) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.servers = nil; c.life != nil {
		c.end()
		c.life, c.end = nil, nil
	}
}

// Running is the context of errands, which end with the last configuration; nil while
// there is none through whose sites they could go.
func (c *Carrier) Running() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.life
}

func (c *Carrier) server(name string) *caddyhttp.Server {
	c.mu.Lock()
	servers := c.servers
	c.mu.Unlock()
	if servers == nil {
		return nil
	}
	return servers(name)
}

// Carry takes an errand through the site to its handler, and returns the answer.
func (c *Carrier) Carry(ctx context.Context, e *Errand) (a *Answer, err error) {
	defer func() {
		if p := recover(); p != nil { // an answer cut short, or a way that does not lead there
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
	if e.direct != nil {
		err = e.direct(a, caddyhttp.PrepareRequest(r, caddy.NewReplacer(), a, &caddyhttp.Server{}))
	} else {
		srv := c.server(e.Server)
		if srv == nil {
			return nil, ErrUnreached
		}
		srv.ServeHTTP(a, r)
	}
	e.status = a.Status
	if err == nil && !e.Arrived() {
		err = ErrUnreached
	}
	return a, err
}
