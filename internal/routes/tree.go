// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/intercept"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// Handler is one handler among the routes of a server.
type Handler struct {
	// Name is the name of its module, such as reverse_proxy.
	Name string

	module    any // the handler itself, provisioned or not; nil of an unknown module
	place     int // in the order of the configuration
	site      int // number of the site with its route
	named     *named
	fallback  bool       // it gets requests after another handler has failed or answered
	routes    []*route   // of a subroute
	errors    []*route   // of a subroute, for errors
	responses []response // of reverse_proxy and intercept
}

// ours reports whether the handler is one of this module that requests must reach.
func (h *Handler) ours() bool {
	return h.Name == "llm_cache" || h.Name == "llm_cache_origin" || h.Name == "llm_cache_dashboard"
}

// answers reports whether the handler answers every request.
func (h *Handler) answers() bool {
	switch h.Name {
	case "static_response", "error", "file_server", "metrics", "llm_cache_simulator", "llm_cache_dashboard",
		"copy_response":
		return true
	}
	return false
}

// passesOn reports whether the handler is known to leave the answer to later handlers.
func (h *Handler) passesOn() bool {
	switch h.Name {
	case "authentication", "copy_response_headers", "encode", "headers", "intercept", "llm_cache", "llm_cache_origin",
		"log_append", "log_level",
		"map", "push", "request_body", "rewrite", "templates", "timeouts", "tracing", "vars":
		return true
	}
	return false
}

// model reports whether the handler may lead to a model.
func (h *Handler) model() bool {
	if h.Name == "reverse_proxy" {
		// A proxy with routes for successful responses, such as forward_auth, leads to no model.
		return !slices.ContainsFunc(h.responses, func(r response) bool { return r.status == "" && r.success })
	}
	return h.Name == "llm_cache_simulator"
}

// response is one handle_response, replace_status or intercept.
type response struct {
	all      bool // of each response
	success  bool // of responses with status 200
	refusals bool // of responses with status 400 and more
	status   string
	routes   []*route
}

// named is a named route.
type named struct {
	name  string
	route *route
	alone bool // it has a single handler
}

// route is a route of a server or of a subroute, or a named route.
type route struct {
	group    string
	terminal bool
	site     int // not 0: it takes all requests of some hosts, and later routes get none of them
	sets     [][]any
	handlers []*Handler
}

// tree has the routes of a server.
type tree struct {
	routes, errors []*route
	named          map[string]*named
	handlers       []*Handler // all handlers
	prefixes       []string   // paths in matchers
	hosts          [][]string // by site, 0 for none: the names of the site
	site           int        // the site being read
	fallback       bool       // routes for errors or responses are being read
}

// read builds the tree of a server, provisioned or not.
func read(s *caddyhttp.Server) *tree {
	t := &tree{named: map[string]*named{}, hosts: [][]string{nil}}
	for name, r := range s.NamedRoutes {
		if r != nil {
			t.named[name] = &named{name: name}
		}
	}
	t.routes = t.list(s.Routes)
	if s.Errors != nil {
		t.errors = t.fallbacks(s.Errors.Routes)
	}
	for name, n := range t.named {
		before := len(t.handlers)
		n.route = t.list(caddyhttp.RouteList{*s.NamedRoutes[name]})[0]
		n.alone = len(t.handlers) == before+1
		for _, h := range t.handlers[before:] {
			h.named = n
		}
	}
	return t
}

func (t *tree) list(list caddyhttp.RouteList) []*route {
	out := make([]*route, 0, len(list))
	for i := range list {
		from := &list[i]
		r := &route{group: from.Group, terminal: from.Terminal}
		r.sets = t.sets(from.MatcherSets, from.MatcherSetsRaw)
		for _, set := range r.sets {
			for _, m := range set {
				// The Caddyfile adapter makes each site a terminal route with hosts.
				hosts, is := m.(*caddyhttp.MatchHost)
				if !is || !r.terminal {
					continue
				}
				if r.site == 0 {
					r.site = len(t.hosts)
					t.hosts = append(t.hosts, nil)
				}
				t.hosts[r.site] = append(t.hosts[r.site], *hosts...)
			}
		}
		outer := t.site
		if r.site != 0 {
			t.site = r.site
		}
		// Provisioning removes the raw handlers.
		for _, h := range from.Handlers {
			r.handlers = append(r.handlers, t.handler(&Handler{Name: caddy.GetModuleName(h), module: h}))
		}
		if len(from.Handlers) == 0 {
			for _, raw := range from.HandlersRaw {
				r.handlers = append(r.handlers, t.handler(parse(raw)))
			}
		}
		t.site = outer
		out = append(out, r)
	}
	return out
}

// private are the top-level names of sites in private networks.
var private = []string{"localhost", "local", "internal", "lan", "home", "arpa", "test", "corp", "intranet"}

// public reports whether the name of a site may be known on the Internet.
func public(name string) bool {
	end := name[strings.LastIndex(name, ".")+1:]
	return end != name && !strings.Contains(name, "{") && net.ParseIP(name) == nil && !slices.Contains(private, end)
}

// parse reads a handler from JSON, as far as its module is known here.
func parse(raw json.RawMessage) *Handler {
	h := new(Handler)
	var head struct {
		Handler string `json:"handler"`
	}
	_ = json.Unmarshal(raw, &head) // even of a configuration that Caddy rejects
	h.Name = head.Handler
	if info, err := caddy.GetModule("http.handlers." + h.Name); err == nil {
		h.module = info.New()
		_ = json.Unmarshal(raw, h.module)
	}
	return h
}

// handler adds a handler to the tree, with its routes.
func (t *tree) handler(h *Handler) *Handler {
	h.place, h.site, h.fallback = len(t.handlers), t.site, t.fallback
	t.handlers = append(t.handlers, h)
	switch m := h.module.(type) {
	case *caddyhttp.Subroute:
		h.routes = t.list(m.Routes)
		if m.Errors != nil {
			h.errors = t.fallbacks(m.Errors.Routes)
		}
	case *reverseproxy.Handler:
		h.responses = t.responses(m.HandleResponse)
	case *intercept.Intercept:
		h.responses = t.responses(m.HandleResponse)
	case interface {
		Fallback() (caddyhttp.MiddlewareHandler, json.RawMessage)
	}:
		// Provisioning removes the raw handler.
		if f, raw := m.Fallback(); f != nil {
			h.responses = t.otherwise(&Handler{Name: caddy.GetModuleName(f), module: f})
		} else if len(raw) > 0 {
			h.responses = t.otherwise(parse(raw))
		}
	}
	return h
}

// otherwise reads the handler that serves requests in place of those behind.
func (t *tree) otherwise(h *Handler) []response {
	outer := t.fallback
	t.fallback = true
	defer func() { t.fallback = outer }()
	return []response{{routes: []*route{{handlers: []*Handler{t.handler(h)}}}}}
}

func (t *tree) responses(list []caddyhttp.ResponseHandler) []response {
	out := make([]response, 0, len(list))
	for i := range list {
		m := list[i].Match
		out = append(out, response{
			all: m == nil, success: matches(m, 200, 299), refusals: matches(m, 400, 599),
			status: list[i].StatusCode.String(), routes: t.fallbacks(list[i].Routes),
		})
	}
	return out
}

// matches reports whether a status of a range may match. The status 4 in a matcher means all of
// 4xx.
func matches(m *caddyhttp.ResponseMatcher, from, to int) bool {
	if m == nil || len(m.StatusCode) == 0 {
		return true
	}
	return slices.ContainsFunc(m.StatusCode, func(code int) bool {
		return from <= code && code <= to || from/100 <= code &&
			code <= to/100
	})
}

// fallbacks reads routes for errors or responses.
func (t *tree) fallbacks(list caddyhttp.RouteList) []*route {
	outer := t.fallback
	t.fallback = true
	defer func() { t.fallback = outer }()
	return t.list(list)
}

// sets returns the matchers of a route, nil for matchers of other modules.
func (t *tree) sets(loaded caddyhttp.MatcherSets, raw []caddy.ModuleMap) [][]any {
	out := make([][]any, 0, len(loaded)+len(raw))
	for _, set := range loaded {
		matchers := make([]any, 0, len(set))
		for _, m := range set {
			matchers = append(matchers, t.matcher(m))
		}
		out = append(out, matchers)
	}
	if len(loaded) > 0 {
		return out
	}
	for _, set := range raw {
		matchers := make([]any, 0, len(set))
		for name, config := range set {
			var m any
			switch name {
			case "path":
				m = new(caddyhttp.MatchPath)
			case "host":
				m = new(caddyhttp.MatchHost)
			case "not":
				m = new(caddyhttp.MatchNot)
			}
			if m != nil && json.Unmarshal(config, m) != nil {
				m = nil
			}
			matchers = append(matchers, t.matcher(m))
		}
		out = append(out, matchers)
	}
	return out
}

// excluded is the matcher `not`.
type excluded [][]any

func (t *tree) matcher(m any) any {
	switch m := m.(type) {
	case *caddyhttp.MatchPath:
		// Provision changes the paths to lower case in place.
		lower := append(caddyhttp.MatchPath(nil), *m...)
		_ = lower.Provision(caddy.Context{})
		t.prefixes = append(t.prefixes, lower...)
		return lower
	case caddyhttp.MatchNot:
		return excluded(t.sets(m.MatcherSets, m.MatcherSetsRaw))
	case *caddyhttp.MatchNot:
		return excluded(t.sets(m.MatcherSets, m.MatcherSetsRaw))
	case *caddyhttp.MatchHost:
		return m
	}
	return nil
}

// verdict is a matcher's decision on a request with only the path, and perhaps the host, known.
type verdict int

const (
	no verdict = iota
	maybe
	yes
)

// match decides on a request for a host and a path, "" for unknown ones.
func (r *route) match(host, path string) verdict { return anyOf(r.sets, host, path) }

func anyOf(sets [][]any, host, path string) verdict {
	if len(sets) == 0 {
		return yes
	}
	found := no
	for _, set := range sets {
		all := yes
		for _, m := range set {
			all = min(all, one(m, host, path))
		}
		found = max(found, all)
	}
	return found
}

func one(m any, host, path string) verdict {
	switch m := m.(type) {
	case excluded:
		// Negation swaps yes and no, and leaves maybe.
		return yes - anyOf(m, host, path)
	case *caddyhttp.MatchHost:
		if host != "" && !strings.Contains(strings.Join(*m, ""), "{") {
			return decide(m, host, path)
		}
	case caddyhttp.MatchPath:
		if path != "" && !strings.Contains(strings.Join(m, ""), "{") {
			return decide(m, host, path)
		}
	}
	return maybe
}

func decide(m caddyhttp.RequestMatcherWithError, host, path string) verdict {
	r := (&http.Request{Host: host, URL: &url.URL{Path: path}}).WithContext(context.WithValue(context.Background(),
		caddy.ReplacerCtxKey, caddy.NewEmptyReplacer()))
	switch ok, err := m.MatchWithError(r); {
	case err != nil:
		return maybe
	case ok:
		return yes
	}
	return no
}
