// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// DashboardHandler serves the live page: what was saved today and for whom, whose
// conversations are warm, how boxes, pings and stores are. It shows names, counters and
// times, and never content, keys or credentials; it can only be looked at. Whoever gets
// through the handlers before it may see it: put authentication there.
//
// It takes the last element of the path for what is asked for, so that it may be put
// under any folder. All sites show the same: the turns of the whole process.
type DashboardHandler struct{}

// CaddyModule returns the Caddy module information.
func (DashboardHandler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.llm_cache_dashboard", New: func() caddy.Module { return new(DashboardHandler) }}
}

// Provision makes sure that there is something to show.
func (*DashboardHandler) Provision(ctx caddy.Context) error {
	if _, err := ctx.App("llm_cache"); err != nil {
		return fmt.Errorf("loading the llm_cache app: %w", err)
	}
	return nil
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (*DashboardHandler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	Dashboard.ServeHTTP(w, r)
	return nil
}

// UnmarshalCaddyfile sets it up from Caddyfile tokens. Syntax:
//
//	llm_cache_dashboard [<matcher>]
func (*DashboardHandler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the directive
	if d.NextArg() {
		return d.ArgErr()
	}
	if d.NextBlock(0) {
		return d.Errf("unrecognized option %q of llm_cache_dashboard, which has none", d.Val())
	}
	return nil
}
