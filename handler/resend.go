// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"bytes"
	"net/http"

	"go.uber.org/zap"

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

// mayBeEdited reports whether the request may go out with anything that its client has not
// asked for.
func (x *exchange) mayBeEdited() bool {
	return x.Edit.Prompt.Edited || x.site.up.Target(x.Format) != x.Format || x.site.rewrites ||
		x.site.usage.asksFor(x.View, x.site.up, x.site.records.policy)
}

// routeOf is the key under which refusals of edits are remembered.
func (x *exchange) routeOf(r *http.Request) Route {
	return Route{Upstream: x.site.upstreamKey(r), Model: audit.Bounded(x.View.Model), Credential: tenant.CredentialKind(r)}
}

// resend sends an edited request, and once more without its edits if the upstream refuses it.
type resend struct{ *exchange }

// ServeHTTP implements [httpx.Retrier].
func (s *resend) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	if s.refusal.givenUp {
		s.resent = true
		s.span.Event("llm_cache.resend")
		s.refusal.additions.Off = wire.AllEdits
	}
	return s.send(w, r)
}

// Judge implements [httpx.Judge]. An error without a status may be a refusal, too, as where
// handle_response has made an error of it.
func (s *resend) Judge(a *httpx.Attempt) httpx.Verdict {
	switch t := &s.tap; {
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
func (x *exchange) giveUp() (given bool) {
	e, r := x.Edit, &x.refusal
	if !e.Prompt.Edited && r.additions.Made == 0 {
		return false
	}
	if !x.site.refused.MayResend(x.Tenant, r.route.Upstream) {
		httpx.ResendsLeftOut.Inc()
		return false
	}
	x.site.guard("giving up edits after a refusal", func() {
		before := e.Prompt.Body
		if e.Prompt.Edited {
			e.Rejected()
		}
		given = r.additions.Made != 0 || !bytes.Equal(before, e.Prompt.Body)
	})
	if !given { // the edits stay: the model's thinking is bound to them
		e.Cleared()
	}
	return given
}

// weigh notes, once, by which status the upstream has answered the request without its
// edits. An upstream that takes it has refused the edits.
func (x *exchange) weigh(status int) {
	r := &x.refusal
	if r.weighed {
		return
	}
	r.weighed = true
	switch refusals := x.site.refused; {
	case status/100 == 2:
		httpx.Resends.WithLabelValues(httpx.ResendAccepted).Inc()
		x.site.guard("noting that edits were refused", func() {
			kinds := x.Edit.Accepted(r.additions.Made)
			r.additions.Refuse()
			paused := refusals.Accepted(r.route, x.Tenant, kinds, x.site.now())
			x.site.up.Log.Info("the upstream refuses edits", zap.Stringer("kinds", kinds), zap.Stringer("left_out_for_an_hour", paused),
				zap.String("model", r.route.Model), zap.String("credential", r.route.Credential), zap.String("session", x.Session))
		})
	case httpx.Refusal(status):
		httpx.Resends.WithLabelValues(httpx.ResendRefused).Inc()
		refusals.Refused()
		x.Edit.Cleared()
	default:
		httpx.Resends.WithLabelValues(httpx.ResendFailed).Inc()
		x.Edit.Cleared()
	}
}
