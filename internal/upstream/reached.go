// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"

	"github.com/caddyserver/caddy/v2"
)

// Placeholders in which reverse_proxy reports the upstream's address.
const (
	Host     = "http.reverse_proxy.upstream.host"
	Port     = "http.reverse_proxy.upstream.port"
	HostPort = "http.reverse_proxy.upstream.hostport"
)

// told lists the placeholders that reverse_proxy sets for others, such as the access log.
var told = [...]string{
	Host, Port, HostPort, "http.reverse_proxy.upstream.address", "http.reverse_proxy.upstream.latency", "http.reverse_proxy.upstream.latency_ms",
	"http.reverse_proxy.status_code", "http.reverse_proxy.status_text",
}

// Tell copies these placeholders from another request, which was sent upstream in place of the
// first.
func Tell(ctx, other context.Context) {
	to, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	from, known := other.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok || !known {
		return
	}
	for _, name := range told {
		if v, ok := from.Get(name); ok {
			to.Set(name, v)
		}
	}
}

// Reached returns the value of one of these placeholders, "" if reverse_proxy has not set it.
func Reached(ctx context.Context, what string) string {
	repl, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return ""
	}
	s, _ := repl.GetString(what)
	return s
}
