// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"bytes"
	"net/http"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// refusal is the state of the second try of an edited request that the upstream refuses.
type refusal struct {
	route     Route
	additions httpx.Additions // edits that layers behind make
	weighed   bool            // the outcome of the second request is known
}

// edits reports whether the request may go out with anything that its client has not
// asked for.
func (c *requestState) edits() bool {
	return c.ex.Prompt.Edited || c.site.up.Target(c.view.Format) != c.view.Format || c.site.sharing.overlay.Watches() ||
		c.site.usage.asksFor(c.view, c.site.up, c.site.records.policy)
}

// routeOf is the key under which refusals of edits are remembered.
func (c *requestState) routeOf(r *http.Request) Route {
	return Route{Upstream: c.site.upstreamKey(r), Model: audit.Bounded(c.view.Model), Credential: tenant.CredentialKind(r)}
}

// told returns the status of the upstream's answer, before any mapping between it and this handler.
func (t *tap) told() int {
	if status := httpx.UpstreamStatus(t.request.Context()); status != 0 && !t.own {
		return status
	}
	return t.Status
}

// Ours notes that the answer is not the upstream's.
func (t *tap) Ours() { t.own = true }

// rejects reports whether the upstream has refused the request, and it is to be sent once
// more without its edits. The client has seen nothing of that answer. With an error there
// is none, as where handle_response has made an error of it.
func (t *tap) rejects(err error) bool {
	if t.dropped || !t.resend || t.own || t.released || t.Status == 0 && err == nil || !httpx.Refusal(t.told()) {
		return t.dropped
	}
	t.dropped = t.state.giveUp()
	return t.dropped
}

// giveUp takes the edits out of the request. It returns false where there are none, where
// none can be taken out, and where too many requests of the tenant were sent twice in vain.
func (c *requestState) giveUp() (given bool) {
	x, r := c.ex, &c.refusal
	if !x.Prompt.Edited && r.additions.Made == 0 {
		return false
	}
	if !c.site.refused.MayResend(c.asker.tenant, r.route.Upstream) {
		httpx.ResendsLeftOut.Inc()
		return false
	}
	c.site.guard("giving up edits after a refusal", func() {
		before := x.Prompt.Body
		if x.Prompt.Edited {
			x.Rejected()
		}
		given = r.additions.Made != 0 || !bytes.Equal(before, x.Prompt.Body)
	})
	if !given { // the edits stay: the model's thinking is bound to them
		x.Cleared()
	}
	return given
}

// again sends the request without its edits. The client sees only the answer to that.
func (c *requestState) again(w http.ResponseWriter, original *http.Request, next caddyhttp.Handler) error {
	c.ending.resent = true
	c.books.span.Event("llm_cache.resend")
	c.refusal.additions.Off = wire.AllEdits
	defer c.restore(original, c.substitute(original))
	t := newTap(w, c, false)
	t.second = true
	t.request = httpx.Isolate(original, t)
	err := c.forward(t, t.request, next)
	c.weigh(t.told())
	return c.finish(t, err)
}

// weigh notes, once, by which status the upstream has answered the request without its
// edits. An upstream that takes it has refused the edits.
func (c *requestState) weigh(status int) {
	r := &c.refusal
	if r.weighed {
		return
	}
	r.weighed = true
	switch refusals := c.site.refused; {
	case status/100 == 2:
		httpx.Resends.WithLabelValues(httpx.ResendAccepted).Inc()
		c.site.guard("noting that edits were refused", func() {
			kinds := c.ex.Accepted(r.additions.Made)
			r.additions.Refuse()
			paused := refusals.Accepted(r.route, c.asker.tenant, kinds, c.site.now())
			c.site.up.Log.Info("the upstream refuses edits", zap.Stringer("kinds", kinds), zap.Stringer("left_out_for_an_hour", paused),
				zap.String("model", r.route.Model), zap.String("credential", r.route.Credential), zap.String("session", c.session.ID()))
		})
	case httpx.Refusal(status):
		httpx.Resends.WithLabelValues(httpx.ResendRefused).Inc()
		refusals.Refused()
		c.ex.Cleared()
	default:
		httpx.Resends.WithLabelValues(httpx.ResendFailed).Inc()
		c.ex.Cleared()
	}
}
