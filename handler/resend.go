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
	givenUp   bool            // the edits were taken out of the request
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

// resend sends an edited request, and once more without its edits if the upstream refuses it.
type resend struct {
	*requestState
	next caddyhttp.Handler
}

// ServeHTTP implements [httpx.Retrier].
func (s *resend) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	if s.refusal.givenUp {
		s.ending.resent = true
		s.books.span.Event("llm_cache.resend")
		s.refusal.additions.Off = wire.AllEdits
	}
	return s.send(&s.first, w, r, s.next)
}

// Judge implements [httpx.Judge]. An error without a status may be a refusal, too, as where
// handle_response has made an error of it.
func (s *resend) Judge(a *httpx.Attempt) httpx.Verdict {
	switch t := &s.first; {
	case a.Err == http.ErrAbortHandler: //nolint:errorlint,err113 // the very value
	case s.refusal.givenUp:
		s.weigh(t.told(a.Status))
	case t.own, a.Status == 0 && a.Err == nil, !httpx.Refusal(t.told(a.Status)):
	case s.giveUp():
		s.refusal.givenUp, t.dropped = true, true
		return httpx.Reject
	}
	return httpx.Accept
}

// told returns the status of the upstream's answer, before any mapping between it and this handler.
func (t *tap) told(status int) int {
	if upstream := httpx.UpstreamStatus(t.request.Context()); upstream != 0 && !t.own {
		return upstream
	}
	return status
}

// Ours notes that the answer is not the upstream's.
func (t *tap) Ours() { t.own = true }

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
