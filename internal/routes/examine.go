// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"cmp"
	"encoding/json"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
)

// Finding is a problem of a configuration.
type Finding struct {
	// Server is the name of the server, Site the names of the site, "" for any.
	Server, Site string
	// Message describes the problem.
	Message string
	// Handler is the other handler involved, if any, and Paths are the affected requests.
	Handler string
	Paths   []string
	// Remedy is an instruction for the operator.
	Remedy string
	// Note marks a finding that may be intended.
	Note bool
}

// Cache is an llm_cache, with the handlers that requests may meet before and after it.
type Cache struct {
	*Handler
	Before, Behind []*Handler
}

// Report is the result of examining a configuration's routes.
type Report struct {
	Findings []Finding
	Caches   []Cache
	// BaseURLs are the URLs of the sites with an llm_cache that requests reach.
	BaseURLs []string
}

// Settings are the settings of an llm_cache that the checks look at. The handler, which this package cannot import,
// returns them from a method of this name.
type Settings struct {
	Upstream  *upstream.Upstream
	Translate *bool
	MaxBody   int64 // 0 before provisioning
	// ByCredentials reports that tenants are told apart by their credentials alone.
	ByCredentials bool
}

// Settings returns the settings of an llm_cache.
func (h *Handler) Settings() Settings {
	if c, ok := h.module.(interface{ Settings() Settings }); ok {
		return c.Settings()
	}
	return Settings{}
}

// Upstream is an address that a reverse_proxy sends requests to.
type Upstream struct {
	Dial string
	TLS  bool
}

// Upstreams returns the addresses that the configuration of a reverse_proxy to models names.
func (h *Handler) Upstreams() (all []Upstream) {
	if m, ok := h.module.(*reverseproxy.Handler); ok && h.model() {
		tls := transport(m).TLS != nil
		for _, u := range m.Upstreams {
			all = append(all, Upstream{u.Dial, tls})
		}
	}
	return all
}

// transport returns the HTTP transport of a proxy, provisioned or not.
func transport(m *reverseproxy.Handler) *reverseproxy.HTTPTransport {
	if t, ok := m.Transport.(*reverseproxy.HTTPTransport); ok {
		return t
	}
	t := new(reverseproxy.HTTPTransport)
	_ = json.Unmarshal(m.TransportRaw, t) // none, or another module's
	return t
}

// Examine makes all checks of the servers, provisioned or not.
func Examine(servers map[string]*caddyhttp.Server) Report {
	var report Report
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		w := newWalk(servers[name])
		if w == nil || len(w.facts) == 0 {
			continue
		}
		w.all()
		for _, h := range w.tree.handlers {
			if f := w.facts[h]; f != nil && h.Name == "llm_cache" {
				report.Caches = append(report.Caches, Cache{h, inOrder(f.before), inOrder(f.back)})
			}
		}
		for h := range w.owned("llm_cache") {
			for _, u := range w.baseURLs(h) {
				if !slices.Contains(report.BaseURLs, u) {
					report.BaseURLs = append(report.BaseURLs, u)
				}
			}
		}
		for _, f := range w.findings() {
			f.Server = name
			report.Findings = append(report.Findings, f)
		}
	}
	return report
}

// Way is the end of a request's way through the routes of a server.
type Way struct {
	Cache *Handler // the llm_cache that it meets, or nil
	By    *Handler // the handler that answers it, or nil
}

// Trace returns the ways that a request for a host and path may take.
func Trace(server *caddyhttp.Server, host, path string) []Way {
	w := newWalk(server)
	if w == nil {
		return nil
	}
	w.host, w.probe = host, path
	w.routes(w.tree.routes, way{path: path}, w.nothing)
	return w.ends
}

// findings makes the checks, after the walk.
func (w *walk) findings() (all []Finding) {
	if w.steps > maxSteps {
		return []Finding{{
			Message: "the routes are too many to tell whether requests pass llm_cache", Note: true,
			Remedy: "look whether answers have a header X-Llm-Cache",
		}}
	}
	for _, c := range checks {
		all = append(all, c.find(w)...)
	}
	return all
}

// baseURLs returns the URLs of a handler's site: its names, or the addresses of the server, with the server's ports.
func (w *walk) baseURLs(h *Handler) (all []string) {
	scheme, usual := "http", uint(caddyhttp.DefaultHTTPPort)
	if len(w.server.TLSConnPolicies) > 0 {
		scheme, usual = "https", caddyhttp.DefaultHTTPSPort
	}
	for _, listen := range w.server.Listen {
		a, err := caddy.ParseNetworkAddress(listen)
		if err != nil || a.IsUnixNetwork() || a.IsFdNetwork() {
			continue
		}
		names := w.tree.hosts[h.site]
		if len(names) == 0 {
			names = []string{a.Host}
			if ip := net.ParseIP(a.Host); a.Host == "" || ip.IsUnspecified() {
				names[0] = "localhost"
			}
		}
		for _, name := range names {
			u := url.URL{Scheme: scheme, Host: name}
			if a.StartPort != usual {
				u.Host = net.JoinHostPort(name, strconv.FormatUint(uint64(a.StartPort), 10))
			}
			all = append(all, u.String())
		}
	}
	return all
}

// site returns the names of a handler's site.
func (w *walk) site(h *Handler) string { return strings.Join(w.tree.hosts[h.site], ", ") }

// owned yields our handlers of a name that requests reach, in the order of the configuration.
func (w *walk) owned(name string) func(yield func(*Handler, *facts) bool) {
	return func(yield func(*Handler, *facts) bool) {
		for _, h := range w.tree.handlers {
			if f := w.facts[h]; f != nil && f.reached && h.Name == name && !yield(h, f) {
				return
			}
		}
	}
}

// proxied is a reverse_proxy to models behind an llm_cache.
type proxied struct {
	*Handler
	config *reverseproxy.Handler
	cache  Settings
}

// proxies returns each proxy behind an llm_cache once.
func (w *walk) proxies() (all []proxied) {
	for c, f := range w.owned("llm_cache") {
		for _, h := range f.back {
			m, ok := h.module.(*reverseproxy.Handler)
			if ok && h.model() && !slices.ContainsFunc(all, func(p proxied) bool { return p.Handler == h }) {
				all = append(all, proxied{h, m, c.Settings()})
			}
		}
	}
	slices.SortFunc(all, func(a, b proxied) int { return cmp.Compare(a.place, b.place) })
	return all
}
