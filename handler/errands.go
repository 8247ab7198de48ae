// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/selfrequest"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/idlefold"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/warm"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive/pinger"
)

// sends describes the site to internal requests.
func (o *site) sends(next caddyhttp.Handler) *selfrequest.Site {
	s := &selfrequest.Site{Upstream: o.up, Next: next, Record: o.errand, Layers: func(e *selfrequest.Errand) caddyhttp.Handler {
		p := &passage{site: o, format: e.Client, sessionID: e.Session, tenant: e.Tenant}
		switch e.Kind {
		case selfrequest.Ping:
			p.purpose = pinging
		case selfrequest.WarmUp:
			p.purpose = warming
		case selfrequest.Fold:
			p.purpose = folding
		}
		return p.through(next)
	}}
	if o.keepalive != nil {
		s.Sends |= selfrequest.Ping
		if l := o.keepalive.Log; l != nil && *l {
			s.Logged |= selfrequest.Ping
		}
	}
	if o.sharing.warm != nil {
		s.Sends |= selfrequest.WarmUp
	}
	if o.sharing.fold != nil {
		s.Sends |= selfrequest.Fold
	}
	return s
}

// targets returns a function that makes a target for internal requests along the route of r. It must be
// called before r is changed.
func (x *exchange) targets(r *http.Request, way selfrequest.Way) func(body []byte) *selfrequest.Target {
	next := x.next // without the layers of this request
	return func(body []byte) *selfrequest.Target {
		t := selfrequest.NewTarget(r, body, x.format, x.view.Model)
		t.Way = way
		t.Person = x.person
		if x.site.keeper.Manual() {
			t.Direct(x.site, next)
		}
		return t
	}
}

// ServeHTTP implements [caddyhttp.MiddlewareHandler] for requests of our own that do not
// take their way through a configuration.
func (o *site) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return selfrequest.Of(r).Arrive(w, r, o.sends(next))
}

// visits tells that the conversation is not idle until the returned function is called.
func (x *exchange) visits(r *http.Request) (leave func()) {
	v := x.site.keeper.Enter(x.site.keepalive, r, x.session, x.edit)
	if v == nil {
		return func() {}
	}
	return func() {
		a := &pinger.Answered{
			Request: r, View: x.view, Turn: x.turn, Tenant: x.tenant, Denied: x.denied(), Resent: x.resent, Target: x.target, Log: x.site.up.Log,
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

// recorded returns next with a look at how prompts begin before it, where bases are kept
// warm.
func (o *site) recorded(next caddyhttp.Handler, p *warm.Prompt) caddyhttp.Handler {
	if p == nil {
		return next
	}
	return o.sharing.warm.Layer(next, o.sharing.box, p)
}

// ended reports whether the answer has come to a proper end.
func (e *outcome) ended() bool { return e.turn != nil && e.turn.Done && !e.turn.Failed() }

// denied reports whether the credential was refused.
func (e *outcome) denied() bool {
	return e.status == http.StatusUnauthorized || e.status == http.StatusForbidden
}

// warmed counts a use of the base that the prompt began with, once it was answered.
func (x *exchange) warmed() {
	if x.prompt == nil || !x.ended() {
		return
	}
	o := x.site
	o.guard("remembering how a prompt begins", func() {
		o.sharing.box.Answered(x.prompt, o.now(), o.up.Reports() && x.edit.Vanished(x.turn), x.target)
	})
}

// foldIdly has the local server read the folded history once the answer is over.
func (x *exchange) foldIdly() {
	o := x.site
	if o.sharing.fold == nil || !x.ended() || x.resent {
		return
	}
	f := o.sharing.fold.Plan(&idlefold.Answered{
		Exchange: x.edit, View: x.view, Turn: x.turn, Session: x.sessionID, Tenant: x.tenant, Target: x.target, Keep: x.keepFolded,
	})
	switch {
	case f == nil:
	case o.keeper.Manual():
		idlefold.Of(o.store).Fold = f
	default:
		f.Start()
	}
}
