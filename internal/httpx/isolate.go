// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package httpx

import (
	"context"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Isolate returns a clone of a request for another pass through the same handlers. The clone has
// route groups, variables and placeholders of its own, initially equal to those of the first pass.
func Isolate(r *http.Request, w http.ResponseWriter) *http.Request {
	ctx := r.Context()
	r = r.Clone(ctx)
	srv, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok || srv == nil {
		return r
	}
	repl := caddy.NewReplacer()
	if before, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		repl.Map(func(name string) (any, bool) {
			if !strings.HasPrefix(name, "http.request.orig_uri") {
				return nil, false
			}
			return before.Get(name)
		})
		ForgetUpstreamStatus(ctx)  // of the previous response
		defer repl.Map(before.Get) // after the placeholders of the present request
	}
	r = caddyhttp.PrepareRequest(r, repl, w, srv)
	before, _ := ctx.Value(caddyhttp.VarsCtxKey).(map[string]any)
	vars, _ := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
	for k, v := range before {
		// PrepareRequest has set variables of its own, which are newer.
		if _, ok := vars[k]; !ok {
			vars[k] = v
		}
	}
	parent := r.Context()
	for _, key := range [...]caddy.CtxKey{caddyhttp.ExtraLogFieldsCtxKey, caddyhttp.OriginalRequestCtxKey} {
		if value := ctx.Value(key); value != nil {
			parent = context.WithValue(parent, key, value)
		}
	}
	*r = *r.WithContext(parent) // the replacer reads later changes from this very request
	return r
}

// sharedPlaceholders lists the placeholders that reverse_proxy sets for others, such as the access log.
var sharedPlaceholders = [...]string{
	"http.reverse_proxy.upstream.host", "http.reverse_proxy.upstream.port", "http.reverse_proxy.upstream.hostport",
	"http.reverse_proxy.upstream.address", "http.reverse_proxy.upstream.latency", "http.reverse_proxy.upstream.latency_ms",
	upstreamStatus, "http.reverse_proxy.status_text",
}

// Tell copies these placeholders from another request, which was sent upstream in place of the
// first.
func Tell(ctx, other context.Context) {
	to, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	from, known := other.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok || !known || to == from {
		return
	}
	for _, name := range sharedPlaceholders {
		if v, ok := from.Get(name); ok {
			to.Set(name, v)
		}
	}
}
