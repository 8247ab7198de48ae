// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

// Crowd finds sites where everybody is one tenant.

import (
	"cmp"
	"net/http"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
)

// Tenants are told apart by their credentials. A handler that writes the same
// credential into every request before it comes here makes one tenant of all, which
// no request shows: Caddy keeps no headers of how it came. The configuration does.

// told are the sites that were warned of, once in a process.
var told sync.Map

// WarnSharedCredentials warns of the sites of a configuration where everybody is one tenant.
func WarnSharedCredentials(app *caddyhttp.App, logger *zap.Logger) {
	for name, srv := range app.Servers {
		w := sharing{named: srv.NamedRoutes, warn: func(header string) {
			if _, before := told.LoadOrStore(name+" "+header, true); before {
				return
			}
			logger.Warn("all requests are of one tenant, and share its sessions: a handler before llm_cache writes the same credential into each; say whose they are by its option tenant",
				zap.String("server", name), zap.String("header", header))
		}}
		w.routes(srv.Routes, way{})
	}
}

// SharedCredentialSite is what is to be known of a handler of this module.
type SharedCredentialSite interface {
	// ByCredentials reports whether it tells tenants apart by credentials alone.
	ByCredentials() bool
}

// sharing goes the ways of requests through a configuration.
type sharing struct {
	named map[string]*caddyhttp.Route
	warn  func(header string)
	depth int // of routes that invoke others
}

// way is what has become of a request on its way.
type way struct {
	header string // the credential that every request has been given, if any
	user   bool   // somebody has found out whose it is
}

func (a way) or(b way) way { return way{cmp.Or(a.header, b.header), a.user || b.user} }

func (s *sharing) routes(routes caddyhttp.RouteList, at way) way {
	groups := map[string]way{} // of which a request takes one route
	for _, r := range routes {
		from := at
		if r.Group != "" {
			if _, ok := groups[r.Group]; !ok {
				groups[r.Group] = at
			}
			from = groups[r.Group]
		}
		at = at.or(s.handlers(r.Handlers, from))
	}
	return at
}

func (s *sharing) handlers(handlers []caddyhttp.MiddlewareHandler, at way) way {
	for _, h := range handlers {
		switch h := h.(type) {
		case SharedCredentialSite:
			if at.header != "" && !at.user && h.ByCredentials() {
				s.warn(at.header)
			}
		case *headers.Handler:
			at.header = cmp.Or(at.header, writtenForAll(h))
		case *caddyhttp.Subroute:
			at = s.routes(h.Routes, at)
		case *caddyhttp.Invoke:
			if r := s.named[h.Name]; r != nil && s.depth < 16 {
				s.depth++
				at = s.handlers(r.Handlers, at)
				s.depth--
			}
		case caddy.Module:
			at.user = at.user || h.CaddyModule().ID == "http.handlers.authentication"
		}
	}
	return at
}

// writtenForAll is the credential that a handler sets to the same value in every
// request, "" if it does not.
func writtenForAll(h *headers.Handler) string {
	if h.Request == nil {
		return ""
	}
	for name, values := range h.Request.Set {
		name = http.CanonicalHeaderKey(name)
		if tenant.IsCredential(name) && !slices.ContainsFunc(values, tenant.Differs) {
			return name
		}
	}
	return ""
}
