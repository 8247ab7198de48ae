// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

// Package llmcache plugs llm_cache into Caddy. Importing it registers
// everything that is listed here.
package llmcache

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-llm-cache/caddy-llm-cache/box"
	"github.com/caddy-llm-cache/caddy-llm-cache/handler"
	"github.com/caddy-llm-cache/caddy-llm-cache/replay"
)

func init() {
	caddy.RegisterModule(handler.App{})
	caddy.RegisterModule(handler.Handler{})
	caddy.RegisterModule(handler.MemoryStore{})
	caddy.RegisterModule(handler.AuditSQLite{})
	caddy.RegisterModule(handler.AuditPostgres{})
	caddy.RegisterModule(handler.AuditJSONL{})
	caddy.RegisterModule(handler.Admin{})
	caddy.RegisterModule(box.Affinity{})

	caddycmd.RegisterCommand(replay.Command())

	httpcaddyfile.RegisterGlobalOption("llm_cache", parseApp)
	httpcaddyfile.RegisterHandlerDirective("llm_cache", parseHandler)
	httpcaddyfile.RegisterDirectiveOrder("llm_cache", httpcaddyfile.Before, "reverse_proxy")
}

// Interface guards
var (
	_ caddy.App          = (*handler.App)(nil)
	_ caddy.Provisioner  = (*handler.App)(nil)
	_ caddy.CleanerUpper = (*handler.App)(nil)

	_ caddy.Provisioner           = (*handler.Handler)(nil)
	_ caddy.Validator             = (*handler.Handler)(nil)
	_ caddy.CleanerUpper          = (*handler.Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*handler.Handler)(nil)

	_ handler.Store         = (*handler.MemoryStore)(nil)
	_ caddy.Provisioner     = (*handler.MemoryStore)(nil)
	_ caddyfile.Unmarshaler = (*handler.MemoryStore)(nil)

	_ handler.AuditStore    = (*handler.AuditSQLite)(nil)
	_ caddy.Provisioner     = (*handler.AuditSQLite)(nil)
	_ caddyfile.Unmarshaler = (*handler.AuditSQLite)(nil)
	_ handler.AuditStore    = (*handler.AuditPostgres)(nil)
	_ caddy.Provisioner     = (*handler.AuditPostgres)(nil)
	_ caddyfile.Unmarshaler = (*handler.AuditPostgres)(nil)
	_ handler.AuditStore    = (*handler.AuditJSONL)(nil)
	_ caddy.Provisioner     = (*handler.AuditJSONL)(nil)
	_ caddyfile.Unmarshaler = (*handler.AuditJSONL)(nil)

	_ caddy.AdminRouter = (*handler.Admin)(nil)

	_ reverseproxy.Selector = (*box.Affinity)(nil)
	_ caddy.Provisioner     = (*box.Affinity)(nil)
	_ caddy.Validator       = (*box.Affinity)(nil)
	_ caddyfile.Unmarshaler = (*box.Affinity)(nil)
)
