// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/requestbody"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/timeouts"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
)

// check looks at one subject of a server, after the walk through its routes.
type check struct {
	subject string
	find    func(*walk) []Finding
}

// checks are made by `caddy validate`, at each start, and by the doctor.
var checks = []check{
	{"llm_cache, its dashboard and its origin get requests", unreached},
	{"a model is behind llm_cache", unanswered},
	{"a request meets llm_cache once", twice},
	{"no route in front answers requests for models", passed},
	{"tenants differ", sharedTenant},
	{"the dashboard of a public site asks for credentials", openDashboard},
	{"a public site is served by TLS", plainText},
	{"uploads of 1 MB over slow lines, and answers of minutes, are not cut", cut},
	{"bodies of long conversations fit", tooSmall},
	{"answers stream, and refusals arrive as they are", rewrittenAnswers},
	{"each reverse_proxy has one provider's API, by TLS, as its preset says", wrongProvider},
	{"the provider's API gets the path without the site's prefix", unstripped},
	{"headers and options with keys have one", missingKeys},
	{"upstreams need not compress", compressed},
}

func unreached(w *walk) (all []Finding) {
	for _, h := range w.tree.handlers {
		f := w.facts[h]
		if f == nil || f.reached {
			continue
		}
		found := Finding{
			Site: w.site(h), Message: h.Name + " is never reached: no request for a model is led to it",
			Remedy: "look at the matchers around it",
		}
		if by := w.inTheWay(h); h.named != nil {
			found.Message = h.Name + " is never reached: nothing invokes its named route"
			found.Remedy = "invoke " + h.named.name
		} else if by != nil {
			found.Message = h.Name + " is never reached: what stands in front of it answers every request"
			found.Handler, found.Remedy = by.Name, "put "+h.Name+" first, in the same block"
		}
		all = append(all, found)
	}
	return all
}

// inTheWay returns a handler that answers requests of a handler's site, a proxy to a model if there is one.
func (w *walk) inTheWay(h *Handler) *Handler {
	others := w.others[h.site]
	if i := slices.IndexFunc(others, (*Handler).model); i >= 0 {
		return others[i]
	}
	if len(others) > 0 {
		return others[0]
	}
	return nil
}

func unanswered(w *walk) (all []Finding) {
	for _, name := range []string{"llm_cache", "llm_cache_origin"} {
		for h, f := range w.owned(name) {
			for _, site := range slices.Sorted(maps.Keys(f.behind)) {
				if e := f.behind[site]; !e.model {
					found := withoutModel(h, e.by)
					found.Site = w.site(h)
					all = append(all, found)
					break
				}
			}
		}
	}
	return all
}

func withoutModel(h, by *Handler) Finding {
	switch {
	case by != nil && by.Name == "llm_cache_dashboard":
		return Finding{
			Message: "llm_cache_dashboard takes all requests that " + h.Name + " passes on: they reach no model",
			Handler: by.Name,
			Remedy:  "give it a path: llm_cache_dashboard /team/*",
		}
	case by != nil:
		return Finding{
			Message: "no reverse_proxy stands behind " + h.Name + ": requests reach no model", Handler: by.Name,
			Remedy: "put reverse_proxy <upstream> behind it, in the same block",
		}
	case h.named != nil && h.named.alone:
		return Finding{
			Message: "a named route holds " + h.Name +
				" alone, and nothing that answers stands behind it: requests get an empty answer",
			Remedy: "Caddy keeps only the first directive of &(" + h.named.name + "): put all of them into route { … } there",
		}
	}
	return Finding{
		Message: "nothing that answers stands behind " + h.Name + ": requests get an empty answer",
		Remedy:  "put reverse_proxy <upstream> behind it, in the same block",
	}
}

func twice(w *walk) (all []Finding) {
	for h, f := range w.owned("llm_cache") {
		if f.times > 1 {
			all = append(all, Finding{
				Site: w.site(h), Message: "llm_cache stands twice in the way of one request",
				Remedy: "once is enough: take one of them away",
			})
		}
	}
	return all
}

// passed finds requests that an earlier route answers, although llm_cache would get them otherwise.
func passed(w *walk) (all []Finding) {
	for h, f := range w.owned("llm_cache") {
		var paths []string
		var by *Handler
		for _, api := range apis {
			if o := w.bypass[prompt{h.site, api}]; o != nil && o.place < h.place {
				paths, by = append(paths, api), o
			}
		}
		if by == nil || !f.plain || h.fallback {
			continue
		}
		all = append(all, Finding{
			Site: w.site(h), Message: "requests pass llm_cache by: a route in front of it answers them", Handler: by.Name,
			Paths: paths, Remedy: "put llm_cache into that route, or in front of it",
			// A single API may be excluded on purpose.
			Note: len(paths) < len(apis)-1,
		})
	}
	return all
}

func sharedTenant(w *walk) (all []Finding) {
	for h, f := range w.owned("llm_cache") {
		if f.credential != "" {
			all = append(all, Finding{
				Site: w.site(h), Message: "all requests are of one tenant, and share its sessions: a handler before llm_cache " +
					"writes the same credential into each",
				Handler: "headers", Remedy: "tell people apart by the option tenant; the header is " + f.credential,
			})
		}
	}
	return all
}

// sharedCredential returns the header in which earlier handlers write the same credential into
// every request. It returns "" if the llm_cache does not distinguish tenants by credentials, or
// users are authenticated before.
func sharedCredential(before []met, cache *Handler) (name string) {
	if !cache.Settings().ByCredentials {
		return ""
	}
	for _, m := range before {
		if h, ok := m.module.(*headers.Handler); ok && h.Request != nil {
			for header, values := range h.Request.Set {
				header = http.CanonicalHeaderKey(header)
				if tenant.IsCredential(header) && !slices.ContainsFunc(values, tenant.Differs) {
					name = cmp.Or(name, header)
				}
			}
		}
		if m.Name == "authentication" {
			return ""
		}
	}
	return name
}

func openDashboard(w *walk) (all []Finding) {
	for h := range w.owned("llm_cache_dashboard") {
		if !w.guarded(h) {
			all = append(all, Finding{
				Site: w.site(h), Message: "llm_cache_dashboard is open to all who reach the site: names, models and costs",
				Note: true, Remedy: "put basic_auth or forward_auth into the site, or respond 401 with a matcher",
			})
		}
	}
	return all
}

// guarded reports whether an earlier handler in the same site may refuse strangers. A site without
// a public name needs none.
func (w *walk) guarded(h *Handler) bool {
	return !slices.ContainsFunc(w.tree.hosts[h.site], public) ||
		slices.ContainsFunc(w.tree.handlers[:h.place], func(o *Handler) bool {
			return o.site == h.site && (o.Name == "authentication" || o.Name == "static_response" || o.Name == "error" ||
				o.unknown() || o.Name == "reverse_proxy" && !o.model())
		})
}

func plainText(w *walk) (all []Finding) {
	auto, secure := w.server.AutoHTTPS, len(w.server.TLSConnPolicies) > 0
	plain := len(w.server.Listen) == 0 || slices.ContainsFunc(w.server.Listen, func(address string) bool {
		return strings.HasSuffix(address, ":80")
	})
	told := map[string]bool{}
	for h := range w.owned("llm_cache") {
		for _, name := range w.tree.hosts[h.site] {
			skipped := auto != nil && (auto.Disabled || slices.Contains(auto.Skip, name) || slices.Contains(auto.SkipCerts, name))
			if !public(name) || secure || !plain && !skipped || told[name] {
				continue
			}
			told[name] = true
			all = append(all, Finding{
				Site: name, Message: name + " is served without TLS, and keys cross the network in the clear", Note: true,
				Remedy: "write the name without http://, and Caddy gets a certificate",
			})
		}
	}
	return all
}

const (
	longAnswer = 5 * time.Minute  // models think and write for minutes
	longRead   = 2 * time.Minute  // of a long prompt, before the first byte
	slowUpload = 16 * time.Second // 1 MiB at 64 KiB/s
	longStall  = 10 * time.Second // of a mobile line
)

func cut(w *walk) (all []Finding) {
	add := func(h *Handler, handler, option string, d time.Duration, message, remedy string) {
		all = append(all, Finding{
			Site: w.site(h), Handler: handler, Message: fmt.Sprintf("%s is %s: %s", option, d, message), Remedy: remedy,
		})
	}
	idle := func(h *Handler, handler, read, write string, readTime, writeTime time.Duration, readRate, writeRate int64) {
		if readTime > 0 && (readRate <= 0 && readTime < longStall ||
			readRate > 0 && readTime+time.Duration(float64(1<<20)/float64(readRate)*float64(time.Second)) < slowUpload) {
			add(h, handler, read, readTime, "a prompt of 1 MB over a slow line is cut off", "take it away, or set 1m and no rate")
		}
		if writeTime > 0 && writeRate > 0 && writeTime < longAnswer {
			add(h, handler, write, writeTime, "with a rate for writes, an answer is cut off while the model thinks",
				"take the rate away")
		}
	}
	s, seen := w.server, map[*Handler]bool{}
	for h, f := range w.owned("llm_cache") {
		if len(seen) == 0 {
			for _, o := range []struct {
				name string
				of   caddy.Duration
			}{{"read_timeout", s.ReadTimeout}, {"write_timeout", s.WriteTimeout}} {
				if d := time.Duration(o.of); d > 0 && d < longAnswer {
					add(&Handler{}, "", o.name, d, "answers of minutes are cut off", "take it away, or set 10m at least")
				}
			}
			idle(&Handler{}, "", "read_idle_timeout", "write_idle_timeout", time.Duration(s.ReadIdleTimeout),
				time.Duration(s.WriteIdleTimeout), s.ReadMinRate, s.WriteMinRate)
		}
		seen[h] = true
		for _, o := range append(slices.Clone(f.before), f.back...) {
			if m, ok := o.module.(*timeouts.Timeouts); ok && !seen[o] {
				idle(o, o.Name, "read_timeout", "write_timeout", m.ReadTimeout, m.WriteTimeout, m.ReadMinRate, m.WriteMinRate)
			}
			seen[o] = true
		}
	}
	for _, p := range w.proxies() {
		t := transport(p.config)
		if d := time.Duration(t.ResponseHeaderTimeout); d > 0 && d < longRead {
			add(p.Handler, p.Name, "response_header_timeout", d, "a model reads a long prompt for longer", "take it away")
		}
		if d := time.Duration(t.ReadTimeout); d > 0 && d < longRead {
			add(p.Handler, p.Name, "read_timeout", d, "a model may be silent for longer", "take it away")
		}
	}
	return all
}

func tooSmall(w *walk) (all []Finding) {
	seen := map[*Handler]bool{}
	for h, f := range w.owned("llm_cache") {
		if n := h.Settings().MaxBody; n > 0 && n < 1<<20 {
			all = append(all, Finding{
				Site: w.site(h), Message: fmt.Sprintf("max_body is %d bytes: nearly every conversation is larger", n),
				Remedy: "set 32MiB, the default",
			})
		}
		for _, o := range append(slices.Clone(f.before), f.back...) {
			m, ok := o.module.(*requestbody.RequestBody)
			if ok && m.MaxSize > 0 && m.MaxSize < 8<<20 && !seen[o] {
				all = append(all, Finding{
					Site: w.site(h), Message: fmt.Sprintf("request_body max_size is %d bytes: long conversations are larger",
						m.MaxSize), Remedy: "set 32MiB",
				})
			}
			seen[o] = true
		}
	}
	return all
}

func rewrittenAnswers(w *walk) (all []Finding) {
	for h, f := range w.owned("llm_cache") {
		for _, o := range f.back {
			if m, ok := o.module.(*reverseproxy.Handler); ok && m.ResponseBuffers != 0 {
				all = append(all, Finding{
					Site: w.site(h), Message: "response_buffers behind llm_cache holds answers back: nothing streams",
					Handler: o.Name, Remedy: "take response_buffers out of reverse_proxy",
				})
			}
			option := ""
			for _, r := range o.responses {
				switch {
				case !r.refusals:
				case r.status != "":
					option = "replace_status"
				default:
					option = "handle_response"
				}
			}
			if option != "" {
				all = append(all, Finding{
					Site: w.site(h), Message: option +
						" behind llm_cache changes refusals of the upstream, which llm_cache reads and clients act on",
					Handler: o.Name,
					Remedy:  "put intercept in front of llm_cache instead, if statuses have to be changed", Note: true,
				})
			}
		}
	}
	return all
}

func wrongProvider(w *walk) (all []Finding) {
	for _, p := range w.proxies() {
		add := func(message, remedy string) {
			all = append(all, Finding{Site: w.site(p.Handler), Handler: p.Name, Message: message, Remedy: remedy})
		}
		if m := p.config; len(m.Upstreams) == 0 && m.DynamicUpstreams == nil && len(m.DynamicUpstreamsRaw) == 0 {
			add("reverse_proxy has no upstream: each request is answered by 503",
				"name one; an unset {$VARIABLE} is none")
		}
		named := p.cache.Upstream.Name()
		var providers []string
		for _, u := range p.Upstreams() {
			at := upstream.PresetAt(u.Dial)
			if at == "" {
				continue
			}
			host, _, _ := strings.Cut(u.Dial, ":")
			if !slices.Contains(providers, at) {
				providers = append(providers, at)
			}
			if !u.TLS {
				add(u.Dial+" is asked without TLS", "write reverse_proxy https://"+host)
			}
			if named != "" && named != at {
				add(fmt.Sprintf("upstream %s, but requests go to %s: its cache rules and prices are not those", named, host),
					"write upstream "+at)
			}
		}
		if len(providers) > 1 {
			add("requests go to "+strings.Join(providers, " and ")+" in turn: one reverse_proxy has the addresses of both",
				"give each provider a handle block with an llm_cache and a reverse_proxy of its own")
		}
	}
	return all
}

// rooted are the providers whose API begins at the root of the host.
var rooted = []string{"anthropic", "openai", "gemini"}

func unstripped(w *walk) (all []Finding) {
	for _, p := range w.proxies() {
		a := w.arrivals[p.Handler]
		if a == nil || a.plain || a.prefix == "" {
			continue
		}
		for _, u := range p.Upstreams() {
			if slices.Contains(rooted, upstream.PresetAt(u.Dial)) {
				all = append(all, Finding{
					Site: w.site(p.Handler), Handler: p.Name,
					Message: fmt.Sprintf("requests reach %s with the prefix %s, which it does not know: it answers 404", u.Dial, a.prefix),
					Remedy:  fmt.Sprintf("write handle_path %s/* in place of handle", a.prefix),
				})
				break
			}
		}
	}
	return all
}

// keyHeaders are the headers with keys that reverse_proxy may write.
var keyHeaders = []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key"}

func missingKeys(w *walk) (all []Finding) {
	for _, p := range w.proxies() {
		add := func(what, value string) {
			if why := missing(value); why != "" {
				all = append(all, Finding{
					Site: w.site(p.Handler), Handler: p.Name, Message: what + why, Note: true, Remedy: "set it where Caddy runs",
				})
			}
		}
		if u := p.cache.Upstream; u != nil && u.Key != "" {
			add("key", u.Key)
		}
		for _, name := range slices.Sorted(maps.Keys(p.set())) {
			if header := http.CanonicalHeaderKey(name); slices.Contains(keyHeaders, header) {
				add("header_up "+header, strings.Join(p.set()[name], ""))
			}
		}
	}
	return all
}

// set returns the headers that the proxy writes.
func (p *proxied) set() http.Header {
	if h := p.config.Headers; h != nil && h.Request != nil {
		return h.Request.Set
	}
	return nil
}

// placeholder matches the placeholders whose values are known before the first request.
var placeholder = regexp.MustCompile(`\{(env|file)\.([^}]+)\}`)

// missing tells why the value of a key is empty, "" if it is not.
func missing(value string) string {
	if strings.TrimSpace(strings.TrimPrefix(value, "Bearer")) == "" {
		return " writes an empty key: the variable in it is not set here"
	}
	for _, m := range placeholder.FindAllStringSubmatch(value, -1) {
		if m[1] == "env" && os.Getenv(m[2]) == "" {
			return " takes its key from " + m[2] + ", which is not set here"
		}
		if _, err := os.Stat(m[2]); m[1] == "file" && err != nil {
			return " takes its key from " + m[2] + ", which cannot be read here"
		}
	}
	return ""
}

func compressed(w *walk) (all []Finding) {
	for _, p := range w.proxies() {
		if value := p.set().Get("Accept-Encoding"); value != "" && value != "identity" {
			all = append(all, Finding{
				Site: w.site(p.Handler), Handler: p.Name, Note: true,
				Message: fmt.Sprintf("header_up Accept-Encoding asks the upstream for %s, and llm_cache has to unpack each answer", value),
				Remedy:  "take it away; encode in the site compresses towards clients",
			})
		}
	}
	return all
}
