// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package llmcache registers the modules of llm_cache with Caddy when it is imported.
package llmcache

import (
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-llm-cache/caddy-llm-cache/handler"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/compressor"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/letta"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/local"
	_ "github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/localsite" // a feature
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/origin"
	_ "github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retention" // a feature
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive/pinger"
)

func init() {
	caddy.RegisterModule(new(app.App))
	caddy.RegisterModule(handler.Handler{})
	caddy.RegisterModule(handler.MatchModel{})
	caddy.RegisterModule(origin.Handler{})
	caddy.RegisterModule(app.MemoryStore{})
	caddy.RegisterModule(app.DiskStore{})
	caddy.RegisterModule(app.AuditSQLite{})
	caddy.RegisterModule(app.AuditPostgres{})
	caddy.RegisterModule(app.AuditJSONL{})
	caddy.RegisterModule(app.Admin{})
	caddy.RegisterModule(pinger.Limits{})
	caddy.RegisterModule(pinger.Admin{})
	caddy.RegisterModule(letta.Admin{})
	caddy.RegisterModule(app.DashboardHandler{})
	caddy.RegisterModule(local.Affinity{})
	caddy.RegisterModule(compressor.Embedded{})
	caddy.RegisterModule(compressor.HTTP{})

	caddycmd.RegisterCommand(cli.Root())

	_, listing, _ := strings.Cut(syntax, "\n## Syntax\n")
	listing, _, _ = strings.Cut(listing, "\n## ")
	option.SetSyntax(listing)

	httpcaddyfile.RegisterGlobalOption("llm_cache", parseApp)
	// The page must come after directives that refuse strangers, as reverse_proxy does.
	httpcaddyfile.RegisterHandlerDirective("llm_cache_dashboard", parseDashboard)
	httpcaddyfile.RegisterDirectiveOrder("llm_cache_dashboard", httpcaddyfile.Before, "reverse_proxy")
	// Before invoke, handle and route, because reverse_proxy may be in any of them, and after all
	// directives that modify a request before routing.
	httpcaddyfile.RegisterHandlerDirective("llm_cache_origin", parseOrigin)
	httpcaddyfile.RegisterDirectiveOrder("llm_cache_origin", httpcaddyfile.Before, "invoke")
	httpcaddyfile.RegisterHandlerDirective("llm_cache", parseHandler)
	httpcaddyfile.RegisterDirectiveOrder("llm_cache", httpcaddyfile.Before, "invoke")
}

// Interface guards
var (
	_ caddy.App             = (*app.App)(nil)
	_ caddyfile.Unmarshaler = (*app.App)(nil)
	_ caddy.Provisioner     = (*app.App)(nil)
	_ caddy.CleanerUpper    = (*app.App)(nil)

	_ caddy.Provisioner           = (*handler.Handler)(nil)
	_ caddy.Validator             = (*handler.Handler)(nil)
	_ caddy.CleanerUpper          = (*handler.Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*handler.Handler)(nil)

	_ caddy.Provisioner                 = (*handler.MatchModel)(nil)
	_ caddy.Validator                   = (*handler.MatchModel)(nil)
	_ caddyfile.Unmarshaler             = (*handler.MatchModel)(nil)
	_ caddyhttp.RequestMatcherWithError = (*handler.MatchModel)(nil)

	_ caddy.Provisioner           = (*origin.Handler)(nil)
	_ caddy.Validator             = (*origin.Handler)(nil)
	_ caddy.CleanerUpper          = (*origin.Handler)(nil)
	_ caddyfile.Unmarshaler       = (*origin.Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*origin.Handler)(nil)

	_ app.Store             = (*app.MemoryStore)(nil)
	_ caddy.Provisioner     = (*app.MemoryStore)(nil)
	_ caddyfile.Unmarshaler = (*app.MemoryStore)(nil)
	_ app.Store             = (*app.DiskStore)(nil)
	_ app.Secretive         = (*app.DiskStore)(nil)
	_ app.Beginner          = (*app.DiskStore)(nil)
	_ caddy.Provisioner     = (*app.DiskStore)(nil)
	_ caddyfile.Unmarshaler = (*app.DiskStore)(nil)

	_ app.AuditStore        = (*app.AuditSQLite)(nil)
	_ caddy.Provisioner     = (*app.AuditSQLite)(nil)
	_ caddyfile.Unmarshaler = (*app.AuditSQLite)(nil)
	_ app.AuditStore        = (*app.AuditPostgres)(nil)
	_ caddy.Provisioner     = (*app.AuditPostgres)(nil)
	_ caddyfile.Unmarshaler = (*app.AuditPostgres)(nil)
	_ app.AuditStore        = (*app.AuditJSONL)(nil)
	_ caddy.Provisioner     = (*app.AuditJSONL)(nil)
	_ caddyfile.Unmarshaler = (*app.AuditJSONL)(nil)

	_ compressor.Compressor = (*compressor.Embedded)(nil)
	_ caddy.Provisioner     = (*compressor.Embedded)(nil)
	_ caddy.CleanerUpper    = (*compressor.Embedded)(nil)
	_ caddyfile.Unmarshaler = (*compressor.Embedded)(nil)
	_ compressor.Compressor = (*compressor.HTTP)(nil)
	_ caddy.Provisioner     = (*compressor.HTTP)(nil)
	_ caddyfile.Unmarshaler = (*compressor.HTTP)(nil)

	_ caddy.AdminRouter = (*app.Admin)(nil)

	_ caddy.Provisioner           = (*app.DashboardHandler)(nil)
	_ caddyfile.Unmarshaler       = (*app.DashboardHandler)(nil)
	_ caddyhttp.MiddlewareHandler = (*app.DashboardHandler)(nil)

	_ reverseproxy.Selector = (*local.Affinity)(nil)
	_ caddy.Provisioner     = (*local.Affinity)(nil)
	_ caddy.Validator       = (*local.Affinity)(nil)
	_ caddyfile.Unmarshaler = (*local.Affinity)(nil)
)
