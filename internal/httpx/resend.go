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

// What came of a request that was sent once more without our edits.
const (
	ResendAccepted = "accepted" // the edits were to blame
	ResendRefused  = "refused"  // the client's own request is refused, too
	ResendFailed   = "failed"   // neither is known
)

var (
	// Resends counts requests that were sent once more without our edits.
	Resends = metric.CounterOf("resends_total",
		"Requests sent once more without our edits after a refusal, by outcome: accepted, refused again, or failed for another reason.", "outcome",
		ResendAccepted, ResendRefused, ResendFailed)
	// ResendsLeftOut counts refusals that the client got at once.
	ResendsLeftOut = metric.Counter("resends_left_out_total",
		"Refusals of edited requests that were not followed by another try: too many requests of that tenant are refused without our edits, too.")
)

// Refusal reports whether a status says that the upstream does not take a request as it
// is. Statuses that speak of a credential, of money, of time or of size alone do not.
func Refusal(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		return false
	}
	return status/100 == 4
}

// upstreamStatus is the placeholder of the status that reverse_proxy was answered with.
const upstreamStatus = "http.reverse_proxy.status_code"

// UpstreamStatus returns the status that reverse_proxy was answered with in the context
// of a request: a mapping (replace_status, handle_response, intercept) shows another one
// to its writers. It is 0 where no reverse_proxy has been answered.
func UpstreamStatus(ctx context.Context) int {
	repl, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return 0
	}
	v, _ := repl.Get(upstreamStatus)
	status, _ := v.(int)
	return status
}

// ForgetUpstreamStatus makes UpstreamStatus return 0 until the next answer. Another
// reverse_proxy, as forward_auth is one, may have set it for the same request.
func ForgetUpstreamStatus(ctx context.Context) {
	if repl, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		repl.Delete(upstreamStatus)
	}
}

// Additions are edits that layers behind the handler make on their own.
type Additions struct {
	// Off are kinds that the layers leave out.
	Off wire.EditKinds
	// Made are the kinds that the request went out with.
	Made wire.EditKinds

	refused []func()
}

// additionsVar is the variable of a request that holds its Additions.
const additionsVar = "llm_additions"

// Attach has the layers behind find the additions of a request by its context.
func (a *Additions) Attach(ctx context.Context) { caddyhttp.SetVar(ctx, additionsVar, a) }

// AdditionsOf returns the additions of a request, empty ones where nobody has attached any.
func AdditionsOf(ctx context.Context) *Additions {
	if a, ok := caddyhttp.GetVar(ctx, additionsVar).(*Additions); ok {
		return a
	}
	return new(Additions)
}

// Make notes that the request goes out with an addition. refused, if not nil, is called
// should the upstream take the request only without.
func (a *Additions) Make(kind wire.EditKinds, refused func()) {
	a.Made |= kind
	if refused != nil {
		a.refused = append(a.refused, refused)
	}
}

// Refuse tells the layers that the upstream has taken the request only without their additions.
func (a *Additions) Refuse() {
	for _, refused := range a.refused {
		refused()
	}
	a.refused = nil
}

// Ours tells the writers in front that the answer to come is our own, not the upstream's.
func Ours(w http.ResponseWriter) {
	for w != nil {
		if t, ok := w.(interface{ Ours() }); ok {
			t.Ours()
			return
		}
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return
		}
		w = u.Unwrap()
	}
}
