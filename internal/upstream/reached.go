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

// Reached returns the value of one of these placeholders, "" if reverse_proxy has not set it.
func Reached(ctx context.Context, what string) string {
	repl, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return ""
	}
	s, _ := repl.GetString(what)
	return s
}
