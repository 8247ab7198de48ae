// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/feature"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/selfrequest"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive/pinger"
)

func (o *site) sends(next caddyhttp.Handler) *selfrequest.Site {
	s := &selfrequest.Site{
		Sends: o.internal, Upstream: o.up, Next: next, Record: o.internalRequest,
		Layers: func(e *selfrequest.Request) caddyhttp.Handler {
			p := &passage{site: o, Request: feature.Request{Format: e.Client, Session: e.Session, Tenant: e.Tenant}}
			switch e.Kind {
			case selfrequest.Ping:
				p.Purpose = pinging
			case selfrequest.WarmUp:
				p.Purpose = warming
			case selfrequest.Fold:
				p.Purpose = folding
			}
			return p.through(next)
		},
	}
	if o.keepalive != nil && o.keepalive.Log != nil && *o.keepalive.Log {
		s.Logged = selfrequest.Ping
	}
	return s
}

// targets returns a function that makes a target for internal requests along the route of r. It must be
// called before r is changed.
func (x *exchange) targets(r *http.Request, way selfrequest.Path) func(body []byte) *selfrequest.Target {
	return func(body []byte) *selfrequest.Target {
		t := selfrequest.NewTarget(r, body, x.Format, x.View.Model)
		t.Way = way
		t.User, t.Project = x.user, x.record.Project
		return t
	}
}

// visits tells that the conversation is not idle until the returned function is called.
func (x *exchange) visits(r *http.Request) (leave func()) {
	v := x.site.keeper.Enter(x.site.keepalive, r, x.session, x.Edit)
	if v == nil {
		return func() {}
	}
	return func() {
		a := &pinger.Answered{
			Request: r, View: x.View, Turn: x.turn, Tenant: x.Tenant, Denied: x.denied(), Resent: x.resent, Target: x.target,
			Log: x.site.up.Log,
		}
		if x.out != nil {
			a.Sent = x.out.Bytes()
		}
		if x.begun != nil {
			a.Recorded = x.record.Tenant
		}
		v.Leave(a)
	}
}

func (e *outcome) denied() bool {
	return e.status == http.StatusUnauthorized || e.status == http.StatusForbidden
}
