// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// refuseStranger refuses a request of an unknown user with a 401 if users must be known. It returns
// true if it has answered the request.
func (o *site) refuseStranger(w http.ResponseWriter, r *http.Request) (bool, error) {
	if !o.clients.load().Required {
		return false, nil
	}
	if who := o.userOf(r); who.Known() {
		return false, nil
	}
	// Strangers are counted but not on record, or anybody could fill it.
	o.records.count(outcomeStranger)
	message := "no user of this gateway has the key of this request; ask the operator for a key"
	if tenant.CredentialKind(r) == "" {
		message = "this request has no key of a user of this gateway"
	}
	w.Header().Set("X-Should-Retry", "false") // the SDKs of Anthropic and OpenAI obey it
	return true, httpx.Fail(w, formatAt(r), &translate.Failure{
		Status: http.StatusUnauthorized, Type: "authentication_error", Message: message,
	})
}

// modelGate stands between the handler and next for users who may use certain models only. It refuses
// requests that reach it: [exchange.serve] takes it away once it has read the model.
type modelGate struct {
	site   *site
	who    tenant.User
	models []string
	next   caddyhttp.Handler
}

func (g *modelGate) allows(model string) bool {
	return slices.ContainsFunc(g.models, func(pattern string) bool { return upstream.Matches(pattern, model) })
}

// onlyAllowed returns next, behind a gate if the request's user may use certain models only.
func (o *site) onlyAllowed(next caddyhttp.Handler, r *http.Request) caddyhttp.Handler {
	d := o.clients.load()
	if !d.Restricts() {
		return next
	}
	who := o.userOf(r)
	models := d.Models(&who)
	if models == nil {
		return next
	}
	return &modelGate{o, who, models, next}
}

// ServeHTTP implements caddyhttp.Handler.
func (g *modelGate) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	return g.site.denyModel(w, r, g.who, &wire.View{Format: formatAt(r)}, g.models)
}

// denyModel refuses a request with a 403 because its user may not use the model, or it cannot be read.
func (o *site) denyModel(
	w http.ResponseWriter, r *http.Request, who tenant.User, view *wire.View, models []string,
) error {
	o.records.count(outcomeModel)
	o.guard("putting a refusal on record", func() { o.records.denied(r, who, view, http.StatusForbidden) })
	message := fmt.Sprintf("%s may not use the model %q here; allowed: %s", who.Name, view.Model,
		strings.Join(models, ", "))
	if view.Model == "" {
		message = fmt.Sprintf("%s may use certain models only here, and the model of this request cannot be read; "+
			"allowed: %s", who.Name, strings.Join(models, ", "))
	}
	w.Header().Set("X-Should-Retry", "false")
	return httpx.Fail(w, view.Format, &translate.Failure{
		Status: http.StatusForbidden, Type: "permission_error", Message: message,
	})
}
