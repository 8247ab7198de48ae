// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"encoding/json"
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
)

// Admin serves the conversations that are kept alive, and the sums of their pings, on Caddy's admin
// API:
//
//	GET /llm_cache/keepalive
type Admin struct{ instance *shared.Instance }

// Interface guards
var (
	_ caddy.AdminRouter = (*Admin)(nil)
	_ caddy.Provisioner = (*Admin)(nil)
)

// CaddyModule returns the Caddy module information.
func (Admin) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.llm_cache_keepalive", New: func() caddy.Module { return new(Admin) }}
}

// Provision implements [caddy.Provisioner].
func (a *Admin) Provision(ctx caddy.Context) error {
	a.instance = shared.Of(ctx)
	return nil
}

// Routes implements caddy.AdminRouter.
func (a *Admin) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{{Pattern: "GET /llm_cache/keepalive", Handler: caddy.AdminHandlerFunc(a.report)}}
}

func (a *Admin) report(w http.ResponseWriter, _ *http.Request) error {
	open := state.Open(a.instance)
	all := make([]Report, 0, len(open))
	for _, s := range open {
		all = append(all, Of(s).Report())
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(struct {
		Stores []Report `json:"stores"`
	}{all})
}
