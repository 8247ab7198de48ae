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
		p := &passage{site: o, format: e.Client, session: e.Session, tenant: e.Tenant, boxed: new(boxed)}
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
func (c *requestState) targets(r *http.Request, way selfrequest.Way) func(body []byte) *selfrequest.Target {
	return func(body []byte) *selfrequest.Target {
		t := selfrequest.NewTarget(r, body, c.view.Format, c.view.Model)
		t.Way = way
		t.Person = c.asker.person
		return t
	}
}

// visits tells that the conversation is not idle until the returned function is called.
func (c *requestState) visits(r *http.Request, to func(body []byte) *selfrequest.Target) (leave func()) {
	v := c.site.keeper.Enter(c.site.keepalive, r, c.session, c.ex)
	if v == nil {
		return func() {}
	}
	return func() {
		a := &pinger.Answered{
			Request: r, View: c.view, Turn: c.ending.turn, Tenant: c.asker.tenant, Denied: c.ending.denied, Resent: c.ending.resent, Target: to, Log: c.site.up.Log,
		}
		if c.body.out != nil {
			a.Sent = c.body.out.Bytes()
		}
		if c.books.account != nil {
			a.Recorded = c.books.account.record.Tenant
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
func (a *ending) ended() bool { return a.turn != nil && a.turn.Done && !a.turn.Failed() }

// warmed counts a use of the base that the prompt began with, once it was answered.
func (c *requestState) warmed(to func(body []byte) *selfrequest.Target) {
	if c.boxed.prompt == nil || !c.ending.ended() {
		return
	}
	o := c.site
	o.guard("remembering how a prompt begins", func() {
		o.sharing.box.Answered(c.boxed.prompt, o.now(), o.up.Reports() && c.ex.Vanished(c.ending.turn), to)
	})
}

// foldIdly has the local server read the folded history once the answer is over.
func (c *requestState) foldIdly(to func(body []byte) *selfrequest.Target) {
	o := c.site
	if o.sharing.fold == nil || !c.ending.ended() || c.ending.resent {
		return
	}
	f := o.sharing.fold.Plan(&idlefold.Answered{
		Exchange: c.ex, View: c.view, Turn: c.ending.turn, Session: c.session.ID(), Tenant: c.asker.tenant, Target: to, Keep: c.keepFolded,
	})
	if f != nil {
		f.Start()
	}
}
