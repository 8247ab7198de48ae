// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package routes examines the position of a handler among the routes of a Caddy configuration:
// whether requests reach it, and which handlers follow it.
package routes

import (
	"net/http"
	"strconv"
	"sync"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Place is the position of a handler among the routes. Caddy does not tell a handler its
// neighbours. The routes are complete only once all of them have been provisioned: at the start,
// or, in a validation, when the configuration is released.
type Place struct {
	http   *caddyhttp.App
	self   caddyhttp.MiddlewareHandler
	log    *zap.Logger
	logged bool
	behind func() (caddyhttp.RouteList, bool)
}

// Of returns the place of a handler that is being provisioned.
func Of(ctx caddy.Context, self caddyhttp.MiddlewareHandler) *Place {
	p := &Place{self: self, log: ctx.Logger()}
	for _, m := range ctx.Modules() {
		if app, ok := m.(*caddyhttp.App); ok {
			p.http = app
		}
	}
	p.behind = sync.OnceValues(p.refusals)
	return p
}

// Announce logs the findings, as Warn does, and the base URLs of the sites. Call it once the configuration has
// come into force.
func (p *Place) Announce() {
	if urls := p.Warn(); len(urls) > 0 {
		p.log.Info("serving agents", zap.Strings("base_urls", urls))
	}
}

// Warn logs the findings for all llm_cache handlers of the configuration, once, from the first of
// them, and returns the base URLs of their sites. Handlers inside other modules are not examined.
func (p *Place) Warn() []string {
	if p == nil || p.http == nil || p.logged {
		return nil
	}
	p.logged = true
	report := Examine(p.http.Servers)
	if len(report.Caches) == 0 || report.Caches[0].module != any(p.self) {
		return nil
	}
	for _, f := range report.Findings {
		fields := []zap.Field{zap.String("server", f.Server)}
		if f.Handler != "" {
			fields = append(fields, zap.String("handler", f.Handler))
		}
		if len(f.Paths) > 0 {
			fields = append(fields, zap.Strings("paths", f.Paths))
		}
		if f.Site != "" {
			fields = append(fields, zap.String("site", f.Site))
		}
		p.log.Warn(f.Message, append(fields, zap.String("remedy", f.Remedy))...)
	}
	return report.BaseURLs
}

// Refuses reports whether a later `respond`, `error` or `abort` in the same block, with a matcher,
// refuses a request.
func (p *Place) Refuses(r *http.Request) bool {
	if p == nil || p.http == nil {
		return false
	}
	// Caddy orders these directives after `handle`, and so after llm_cache. A refused stranger must
	// not wait or be counted.
	list, some := p.behind()
	return some && refused(list, r, false) == refuses
}

// refusals returns the routes after the handler in its block, and whether one of them may refuse a
// request.
func (p *Place) refusals() (caddyhttp.RouteList, bool) {
	var lists []caddyhttp.RouteList
	for _, s := range p.http.Servers {
		lists = append(lists, s.Routes)
		for _, r := range s.NamedRoutes {
			lists = append(lists, caddyhttp.RouteList{*r})
		}
	}
	for len(lists) > 0 {
		list := lists[0]
		lists = lists[1:]
		for i, route := range list {
			for j, h := range route.Handlers {
				if sub, ok := h.(*caddyhttp.Subroute); ok {
					lists = append(lists, sub.Routes)
				}
				if h != p.self {
					continue
				}
				behind := caddyhttp.RouteList{{Handlers: route.Handlers[j+1:]}}
				for _, next := range list[i+1:] {
					// Of a group, Caddy takes the first matching route only.
					if !route.Terminal && (route.Group == "" || next.Group != route.Group) {
						behind = append(behind, next)
					}
				}
				return behind, mayRefuse(behind)
			}
		}
	}
	return nil, false
}

func mayRefuse(list caddyhttp.RouteList) bool {
	for _, r := range list {
		for _, h := range r.Handlers {
			if sub, ok := h.(*caddyhttp.Subroute); isRefusal(h) || ok && mayRefuse(sub.Routes) {
				return true
			}
		}
	}
	return false
}

// fate is the end of a request in some routes.
type fate int

const (
	goesOn  fate = iota
	refuses      // a refusal answers it
	other        // another handler may answer it
)

// refused walks a request through routes as Caddy does.
func refused(list caddyhttp.RouteList, r *http.Request, matched bool) fate {
	groups := map[string]bool{}
	for _, route := range list {
		if route.Group != "" && groups[route.Group] {
			continue
		}
		ok, err := route.MatcherSets.AnyMatchWithError(r)
		if err != nil {
			return other
		}
		if !ok {
			continue
		}
		groups[route.Group] = true
		for _, h := range route.Handlers {
			within := matched || len(route.MatcherSets) > 0
			if sub, ok := h.(*caddyhttp.Subroute); ok {
				if f := refused(sub.Routes, r, within); f != goesOn {
					return f
				}
				continue
			}
			if isRefusal(h) && within {
				return refuses
			}
			// An unknown handler may answer, and a rewrite changes the outcome of later matchers.
			if name := caddy.GetModuleName(h); !(&Handler{Name: name}).passesOn() || name == "rewrite" {
				return other
			}
		}
		if route.Terminal {
			return other
		}
	}
	return goesOn
}

// isRefusal reports whether a handler responds with a status of 400 or more, or aborts.
func isRefusal(h caddyhttp.MiddlewareHandler) bool {
	switch h := h.(type) {
	case *caddyhttp.StaticError:
		return true
	case *caddyhttp.StaticResponse:
		code, err := strconv.Atoi(h.StatusCode.String())
		return h.Abort || err == nil && code >= 400
	}
	return false
}
