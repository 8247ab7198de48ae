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

package handler

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/app"
	"github.com/caddy-llm-cache/caddy-llm-cache/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/box/idlefold"
	"github.com/caddy-llm-cache/caddy-llm-cache/box/warm"
	"github.com/caddy-llm-cache/caddy-llm-cache/errand"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive/pinger"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// sends is what requests of our own find here.
func (h *Handler) sends(next caddyhttp.Handler) *errand.Site {
	s := &errand.Site{Upstream: h.up, Next: next, Record: h.recordErrand, Layers: func(e *errand.Errand) caddyhttp.Handler {
		p := &passage{h: h, format: e.Client, session: e.Session, tenant: e.Tenant}
		switch e.Kind {
		case errand.Ping:
			p.purpose = pinging
		case errand.WarmUp:
			p.purpose = warming
		case errand.Fold:
			p.purpose = folding
		}
		return p.through(next)
	}}
	if h.KeepAlive != nil {
		s.Sends |= errand.Ping
		if l := h.KeepAlive.Log; l != nil && *l {
			s.Logged |= errand.Ping
		}
	}
	if h.Warm != nil {
		s.Sends |= errand.WarmUp
	}
	if h.IdleFolding != nil {
		s.Sends |= errand.Fold
	}
	return s
}

// recordErrand puts a request of ours on record, whose way r has taken.
func (h *Handler) recordErrand(r *http.Request, rec *audit.Record, u wire.Usage) {
	app.CountCost(rec.USD, 0) // no client has asked
	s := h.sink.Pinned()
	if s == nil {
		return
	}
	defer s.Unpin()
	rec.Tenant, rec.Client, rec.Policy, rec.Billed = s.Tenant(r), audit.ClientName(r.UserAgent()), string(h.Policy), tokens(u)
	rec.User = rec.Tenant
	s.Put(rec)
}

// target makes what is needed to send a body the way that r took.
func (c *call) target(r *http.Request) func(body []byte) *errand.Target {
	return func(body []byte) *errand.Target {
		t := errand.NewTarget(r, body, c.view.Format, c.view.Model)
		if c.h.state.Keeper.Manual() {
			t.Direct(c.h, c.next)
		}
		return t
	}
}

// answered is what pings are made of. r must be as it came.
func (c *call) answered(r *http.Request) *pinger.Answered {
	a := &pinger.Answered{
		Request: r, View: c.view, Turn: c.turn, Tenant: c.tenant,
		Denied: c.denied, Resent: c.resent, Target: c.target(r), Log: c.h.logger,
	}
	if c.out != nil {
		a.Sent = c.out.Bytes()
	}
	if c.account != nil {
		a.Recorded = c.account.record.Tenant
	}
	return a
}

// box finds what is known of the box behind the site.
func (h *Handler) box() *warm.Box { return h.state.Boxes.Of(h.slots()) }

// warmth is what a box needs to know of the site.
func (h *Handler) warmth() *warm.Site {
	return &warm.Site{Options: h.Warm, Queue: h.Queue.SharedName(h.Upstream.Name()), Upstream: h.up, Log: h.logger, Now: h.now}
}

// recorded returns next with a look at how prompts begin before it, where bases are kept
// warm.
func (h *Handler) recorded(next caddyhttp.Handler, c *call) caddyhttp.Handler {
	if h.Warm == nil {
		return next
	}
	return h.warmth().Layer(next, h.box, c.prompt)
}

// warmed counts a use of the base that the prompt began with, once it was answered. r
// must be as it came.
func (c *call) warmed(r *http.Request) {
	if c.h.Warm == nil || c.turn == nil || !c.turn.Done || c.turn.Failed() {
		return
	}
	c.h.guard("remembering how a prompt begins", func() {
		c.h.box().Answered(c.prompt, c.h.now(), c.h.Upstream.Reports() && c.ex.Vanished(c.turn), c.target(r))
	})
}

// foldIdly has the box read what can be folded now that the answer is over. r must be as
// it came.
func (c *call) foldIdly(r *http.Request) {
	h := c.h
	if h.IdleFolding == nil || c.turn == nil || !c.turn.Done || c.turn.Failed() || c.resent {
		return
	}
	s := &idlefold.Site{
		Options: h.IdleFolding, Upstream: h.up, Queue: h.slots, Carrier: &h.state.Carrier, Pin: h.state.Pin, Unpin: h.state.Unpin,
		Log: h.logger, Now: h.now,
	}
	f := s.Plan(&idlefold.Answered{
		Exchange: c.ex, View: c.view, Turn: c.turn, Session: c.id, Tenant: c.tenant, Target: c.target(r), Keep: c.keepFolded,
	})
	switch {
	case f == nil:
	case h.state.Keeper.Manual():
		h.state.Planned = f
	default:
		f.Start()
	}
}

// ByCredentials implements [app.Site].
func (h *Handler) ByCredentials() bool { return len(h.Tenant) == 0 && h.Policy != pipeline.Off }
