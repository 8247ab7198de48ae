// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package httpx

import (
	"context"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// The outcomes of a request that was sent again without our edits.
const (
	ResendAccepted = "accepted" // the edits caused the refusal
	ResendRefused  = "refused"  // the client's own request is refused, too
	ResendFailed   = "failed"   // neither is known
)

var (
	// Resends counts requests that were sent again without our edits.
	Resends = metric.CounterOf("resends_total",
		"Requests sent once more without our edits after a refusal, by outcome: accepted, refused again, or failed for another reason.", "outcome",
		ResendAccepted, ResendRefused, ResendFailed)
	// ResendsLeftOut counts refusals that were forwarded without another attempt.
	ResendsLeftOut = metric.Counter("resends_left_out_total",
		"Refusals of edited requests that were not followed by another try: too many requests of that tenant are refused without our edits, too.")
)

// Refusal reports whether a status means that the upstream rejects the form of a request. Statuses
// about credentials, payment, time or size alone do not.
func Refusal(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		return false
	}
	return status/100 == 4
}

// upstreamStatus is the placeholder with the status that reverse_proxy received.
const upstreamStatus = "http.reverse_proxy.status_code"

// UpstreamStatus returns the status that reverse_proxy received for a request, 0 if there was none.
// Mappings (replace_status, handle_response, intercept) may show another status to its writers.
func UpstreamStatus(ctx context.Context) int {
	repl, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return 0
	}
	v, _ := repl.Get(upstreamStatus)
	status, _ := v.(int)
	return status
}

// ForgetUpstreamStatus makes UpstreamStatus return 0 until the next response. Another
// reverse_proxy, such as forward_auth, may have set it for the same request.
func ForgetUpstreamStatus(ctx context.Context) {
	if repl, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		repl.Delete(upstreamStatus)
	}
}

// Additions are edits that the layers after the handler make on their own.
type Additions struct {
	// Off are the kinds that the layers must not make.
	Off wire.EditKinds
	// Made are the kinds in the request that was sent.
	Made wire.EditKinds

	refused []func()
}

// additionsVar is the request variable with its Additions.
const additionsVar = "llm_additions"

// Attach makes the additions available to the layers of a request, by its context.
func (a *Additions) Attach(ctx context.Context) { caddyhttp.SetVar(ctx, additionsVar, a) }

// AdditionsOf returns the additions of a request, empty ones if none are attached.
func AdditionsOf(ctx context.Context) *Additions {
	if a, ok := caddyhttp.GetVar(ctx, additionsVar).(*Additions); ok {
		return a
	}
	return new(Additions)
}

// Make records that the request has an addition. refused, if not nil, is called if the upstream
// accepts the request only without it.
func (a *Additions) Make(kind wire.EditKinds, refused func()) {
	a.Made |= kind
	if refused != nil {
		a.refused = append(a.refused, refused)
	}
}

// Refuse reports to the layers that the upstream accepted the request only without their additions.
func (a *Additions) Refuse() {
	for _, refused := range a.refused {
		refused()
	}
	a.refused = nil
}

// Ours tells the outer writers that the next response is our own, not the upstream's.
func Ours(w http.ResponseWriter) {
	for w != nil {
		if t, ok := w.(interface{ Ours() }); ok {
			t.Ours()
			return
		}
		// Writers of other modules may be in between.
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return
		}
		w = u.Unwrap()
	}
}
