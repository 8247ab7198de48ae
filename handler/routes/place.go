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

// Package routes looks at where a handler stands among the routes of a Caddy
// configuration, and says why no request can reach it.
package routes

import (
	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Place is where a handler stands among the routes. Caddy tells a handler
// nothing of its neighbours, and the routes are complete only once all of them have
// been provisioned: at the start, or, where a configuration is merely validated, when
// it is given up.
type Place struct {
	http *caddyhttp.App
	self caddyhttp.MiddlewareHandler
	log  *zap.Logger
	told bool
}

// Of returns the place of a handler that is being provisioned.
func Of(ctx caddy.Context, self caddyhttp.MiddlewareHandler) *Place {
	p := &Place{self: self, log: ctx.Logger()}
	for _, m := range ctx.Modules() {
		if app, ok := m.(*caddyhttp.App); ok {
			p.http = app
		}
	}
	return p
}

// Warn says, once, why no request reaches the handler, or none what it is for. It
// says nothing of handlers that other modules hold.
func (p *Place) Warn() {
	if p == nil || p.http == nil || p.told {
		return
	}
	p.told = true
	for name, server := range p.http.Servers {
		front, behind, found := p.around(server.Routes)
		if !found {
			continue
		}
		for _, s := range front {
			if s.answers() && !s.matched {
				p.log.Warn("llm_cache is never reached: what stands in front of it answers every request",
					zap.String("server", name), zap.String("in_front", s.name), zap.String("remedy", "put llm_cache first, in the same block"))
				return
			}
		}
		for _, s := range behind {
			if !s.passesOn() {
				return
			}
		}
		p.log.Warn("nothing that answers stands behind llm_cache: requests get an empty answer",
			zap.String("server", name), zap.String("remedy", "put reverse_proxy <upstream> behind it, in the same block"))
		return
	}
}

// step is one handler that a request meets.
type step struct {
	name    string // its module's
	matched bool   // only some requests meet it
}

// answers reports whether the handler answers whatever it gets.
func (s step) answers() bool {
	switch s.name {
	case "reverse_proxy", "static_response", "error", "llm_cache_simulator":
		return true
	}
	return false
}

// passesOn reports whether the handler is known to leave the answer to those behind it.
func (s step) passesOn() bool {
	switch s.name {
	case "authentication", "encode", "headers", "intercept", "llm_cache", "log_append", "map", "push",
		"request_body", "rewrite", "templates", "tracing", "vars":
		return true
	}
	return false
}

// around returns what a request meets before the handler and after it, and reports
// whether the handler is among the routes.
func (p *Place) around(routes caddyhttp.RouteList) (front, behind []step, found bool) {
	for i, route := range routes {
		for j, h := range route.Handlers {
			inFront, inBehind, here := p.in(h)
			if !here {
				continue
			}
			front = append(steps(routes[:i], false), append(handlers(route.Handlers[:j], false), inFront...)...)
			behind = append(inBehind, handlers(route.Handlers[j+1:], false)...)
			for _, next := range routes[i+1:] {
				if route.Terminal {
					break
				}
				if route.Group == "" || next.Group != route.Group { // of a group, only one route is taken
					behind = append(behind, steps(caddyhttp.RouteList{next}, false)...)
				}
			}
			return front, behind, true
		}
	}
	return nil, nil, false
}

// in is around of a handler that may be made of routes itself.
func (p *Place) in(h caddyhttp.MiddlewareHandler) (front, behind []step, found bool) {
	if sub, ok := h.(*caddyhttp.Subroute); ok {
		return p.around(sub.Routes)
	}
	return nil, nil, h == p.self
}

func steps(routes caddyhttp.RouteList, matched bool) []step {
	out := make([]step, 0, len(routes))
	for _, r := range routes {
		out = append(out, handlers(r.Handlers, matched || len(r.MatcherSets) > 0)...)
	}
	return out
}

func handlers(list []caddyhttp.MiddlewareHandler, matched bool) []step {
	out := make([]step, 0, len(list))
	for _, h := range list {
		if sub, ok := h.(*caddyhttp.Subroute); ok {
			out = append(out, steps(sub.Routes, matched)...)
			continue
		}
		out = append(out, step{caddy.GetModuleName(h), matched})
	}
	return out
}
