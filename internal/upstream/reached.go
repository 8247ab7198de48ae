// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"

	"github.com/caddyserver/caddy/v2"
)

// Where a request went in the end, as reverse_proxy says it.
const (
	Host     = "http.reverse_proxy.upstream.host"
	Port     = "http.reverse_proxy.upstream.port"
	HostPort = "http.reverse_proxy.upstream.hostport"
)

// told are the placeholders that say so to others, such as an access log.
var told = [...]string{
	Host, Port, HostPort, "http.reverse_proxy.upstream.address", "http.reverse_proxy.upstream.latency", "http.reverse_proxy.upstream.latency_ms",
	"http.reverse_proxy.status_code", "http.reverse_proxy.status_text",
}

// Tell has the placeholders of a request say what those of another one say, which went
// upstream in its place.
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

// Reached returns one of these, "" if reverse_proxy has not said so.
func Reached(ctx context.Context, what string) string {
	repl, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return ""
	}
	s, _ := repl.GetString(what)
	return s
}
