// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/page"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
)

// DashboardHandler serves the live page: today's savings by user, warm conversations, the state of
// local servers, pings and stores. It shows names, counters and times, and never content, keys or
// credentials. The page is read-only, and has no authentication of its own: put an authentication
// handler before it.
//
// It serves by the last element of the path, so it works under any folder. All sites show the same
// page, with the turns of the whole process.
type DashboardHandler struct{ page *page.Page }

// CaddyModule returns the Caddy module information.
func (DashboardHandler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.llm_cache_dashboard",
		New: func() caddy.Module { return new(DashboardHandler) },
	}
}

// Provision loads the llm_cache app, the source of the page.
func (h *DashboardHandler) Provision(ctx caddy.Context) error {
	h.page = Dashboard(shared.Of(ctx))
	if _, err := ctx.App("llm_cache"); err != nil {
		return fmt.Errorf("loading the llm_cache app: %w", err)
	}
	return nil
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (h *DashboardHandler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	h.page.ServeHTTP(w, r)
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
