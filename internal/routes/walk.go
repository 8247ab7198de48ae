// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"cmp"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/rewrite"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
)

// Finding is a problem with the position of llm_cache.
type Finding struct {
	// Server is the name of the server.
	Server string
	// Message describes the problem, in the same words for all configurations.
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
}

// apis are paths of requests with prompts.
var apis = []string{"/v1/messages", "/v1/chat/completions", "/v1/responses", "/v1beta/models/m:generateContent"}

// maxSteps bounds the walk through one server: each route that may or may not match doubles the
// number of paths.
const maxSteps = 50_000

// Examine walks requests for models through the routes of all servers, provisioned or not.
func Examine(servers map[string]*caddyhttp.Server) Report {
	var report Report
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		if servers[name] == nil {
			continue
		}
		w := &walk{
			tree: read(servers[name]), facts: map[*Handler]*facts{}, others: map[int][]*Handler{},
			bypass: map[prompt]*Handler{},
		}
		for _, h := range w.tree.handlers {
			if h.ours() {
				w.facts[h] = &facts{behind: map[int]ending{}}
			}
		}
		if len(w.facts) == 0 {
			continue
		}
		w.all()
		for _, h := range w.tree.handlers {
			if f := w.facts[h]; f != nil && h.Name == "llm_cache" {
				report.Caches = append(report.Caches, Cache{h, inOrder(f.before), inOrder(f.back)})
			}
		}
		for _, f := range w.findings() {
			f.Server = name
			report.Findings = append(report.Findings, f)
		}
	}
	return report
}

func inOrder(list []*Handler) []*Handler {
	slices.SortFunc(list, func(a, b *Handler) int { return a.place - b.place })
	return slices.Compact(list)
}

// walk walks requests through the routes of one server.
type walk struct {
	tree   *tree
	steps  int
	probe  string // the path of the request
	facts  map[*Handler]*facts
	others map[int][]*Handler  // by site, handlers that answer requests
	bypass map[prompt]*Handler // the proxy that answers without llm_cache
}

// prompt is a request for one of the APIs.
type prompt struct {
	site int
	path string
}

// facts are the properties of all ways through one of our handlers.
type facts struct {
	reached      bool
	plain        bool           // by a request for an API without a prefix
	behind       map[int]ending // by site
	times        int            // number of llm_cache handlers in one way that begins here
	credential   string         // the header of a credential that is the same for all requests
	before, back []*Handler
}

// ending is the end of a site's requests after a handler.
type ending struct {
	model bool // one of them may reach a model
	by    *Handler
}

// way is a request's way through the routes so far.
type way struct {
	path    string // "" after an unpredictable rewrite
	site    int
	assumed int // number of matchers that may also have rejected the request
	groups  []string
	met     []met
	invoked int
}

type met struct {
	*Handler
	assumed int
}

// all walks each path that the routes distinguish.
func (w *walk) all() {
	probes := slices.Clone(apis)
	for _, pattern := range w.tree.prefixes {
		fixed, _, _ := strings.Cut(pattern, "*")
		probes = append(probes, fixed)
		for _, api := range apis {
			// A site may serve the APIs under a prefix.
			probes = append(probes, path.Join("/", fixed, api))
		}
	}
	slices.Sort(probes)
	for _, probe := range slices.Compact(probes) {
		if !strings.HasPrefix(probe, "/") {
			continue
		}
		w.probe = probe
		w.routes(w.tree.routes, way{path: probe}, w.nothing)
		w.routes(w.tree.errors, way{path: probe}, w.nothing)
	}
}

// routes walks routes as Caddy compiles them: each leads to the next one.
func (w *walk) routes(list []*route, at way, next func(way)) {
	if w.steps++; w.steps > maxSteps {
		return
	}
	if len(list) == 0 {
		next(at)
		return
	}
	r, rest := list[0], func(at way) { w.routes(list[1:], at, next) }
	taken := r.match(at.path)
	if r.group != "" && slices.Contains(at.groups, r.group) {
		taken = no // only one route of a group is taken
	}
	if taken == maybe && r.inert() {
		taken = yes // the request stays the same either way
	}
	if taken != yes {
		rest(at)
	}
	if taken == no {
		return
	}
	if r.site != 0 {
		at.site = r.site
	} else if taken == maybe {
		at.assumed++
	}
	if r.group != "" {
		at.groups = append(slices.Clip(at.groups), r.group)
	}
	if r.terminal {
		rest = w.nothing
	}
	w.handlers(r.handlers, at, rest)
}

// inert reports whether the route leaves a request unchanged.
func (r *route) inert() bool {
	return !r.terminal && r.group == "" && !slices.ContainsFunc(r.handlers,
		func(h *Handler) bool { return !h.passesOn() || h.ours() || h.Name == "rewrite" })
}

func (w *walk) handlers(list []*Handler, at way, next func(way)) {
	if len(list) == 0 {
		next(at)
		return
	}
	h, rest := list[0], func(at way) { w.handlers(list[1:], at, next) }
	at.met = append(slices.Clip(at.met), met{h, at.assumed})
	switch m := h.module.(type) {
	case *caddyhttp.Subroute:
		w.routes(h.errors, way{path: at.path, site: at.site}, w.nothing)
		w.routes(h.routes, at, rest)
	case *caddyhttp.Invoke:
		n := w.tree.named[m.Name]
		if n == nil || at.invoked == len(w.tree.named) { // one that invokes itself
			w.end(at, nil)
			return
		}
		at.invoked++
		w.routes([]*route{n.route}, at, rest)
	case *reverseproxy.Handler:
		w.proxy(h, at, rest)
	case *rewrite.Rewrite:
		at.path = rewritten(m, at.path)
		rest(at)
	default:
		for _, r := range h.responses { // of intercept, or the fallback of llm_cache
			w.routes(r.routes, way{path: at.path, site: at.site}, w.nothing)
		}
		if h.answers() {
			w.end(at, h)
			return
		}
		rest(at)
	}
}

// proxy walks the handle_response routes of a proxy.
func (w *walk) proxy(h *Handler, at way, rest func(way)) {
	for _, r := range h.responses {
		// forward_auth lets admitted requests continue to the next handlers.
		if r.status == "" {
			w.routes(r.routes, at, rest)
			if r.all {
				return
			}
		}
	}
	w.end(at, h)
}

// rewritten returns a path after handle_path or uri strip_prefix, and "" after other rewrites.
func rewritten(m *rewrite.Rewrite, path string) string {
	if m.URI != "" || m.StripPathSuffix != "" || len(m.URISubstring) > 0 || len(m.PathRegexp) > 0 ||
		strings.Contains(m.StripPathPrefix, "{") {
		return ""
	}
	if rest, ok := strings.CutPrefix(path, m.StripPathPrefix); ok && path != "" {
		return "/" + strings.TrimPrefix(rest, "/")
	}
	return path
}

func (w *walk) nothing(at way) { w.end(at, nil) }

// end records the facts of a way that a handler ended, or none.
func (w *walk) end(at way, by *Handler) {
	plain := slices.Contains(apis, w.probe)
	var caches []met
	ours := false
	for i, m := range at.met {
		f := w.facts[m.Handler]
		if f == nil {
			continue
		}
		ours, f.reached, f.plain = true, true, f.plain || plain
		model := by != nil && (by.model() || by.Name == "copy_response")
		for _, earlier := range at.met[:i] {
			f.before = append(f.before, earlier.Handler)
		}
		for _, behind := range at.met[i+1:] {
			f.back = append(f.back, behind.Handler)
			model = model || behind.unknown()
		}
		f.before, f.back = inOrder(f.before), inOrder(f.back)
		e := f.behind[at.site]
		if e.model = e.model || model; e.by == nil {
			e.by = by
		}
		f.behind[at.site] = e
		if m.Name == "llm_cache" {
			caches = append(caches, m)
			f.credential = cmp.Or(f.credential, sharedCredential(at.met[:i], m.module))
		}
	}
	// Uncertain matchers before one of the two may exclude the other.
	if len(caches) > 1 && (caches[0].assumed == 0 || caches[len(caches)-1].assumed == caches[0].assumed) {
		f := w.facts[caches[0].Handler]
		f.times = max(f.times, len(caches))
	}
	if by == nil {
		return
	}
	if !slices.Contains(w.others[at.site], by) {
		w.others[at.site] = append(w.others[at.site], by)
	}
	if p := (prompt{at.site, w.probe}); plain && !ours && at.assumed == 0 && by.model() && w.bypass[p] == nil {
		w.bypass[p] = by
	}
}

// unknown reports whether the handler belongs to another module, and may answer or not.
func (h *Handler) unknown() bool {
	switch h.Name {
	case "subroute", "invoke", "reverse_proxy":
		return false
	}
	return !h.answers() && !h.passesOn()
}

// findings returns the problems that the walk has found.
func (w *walk) findings() []Finding {
	var out []Finding
	add := func(f Finding) { out = append(out, f) }
	if w.steps > maxSteps {
		return []Finding{{
			Message: "the routes are too many to tell whether requests pass llm_cache", Note: true,
			Remedy: "look whether answers have a header X-Llm-Cache",
		}}
	}
	for _, h := range w.tree.handlers {
		f := w.facts[h]
		if f == nil {
			continue
		}
		if !f.reached {
			add(w.unreached(h))
			continue
		}
		if h.Name == "llm_cache_dashboard" {
			if !w.guarded(h) {
				add(Finding{
					Message: "llm_cache_dashboard is open to all who reach the site: names, models and costs", Note: true,
					Remedy: "put basic_auth or forward_auth into the site, or respond 401 with a matcher",
				})
			}
			continue
		}
		for _, site := range slices.Sorted(maps.Keys(f.behind)) {
			if e := f.behind[site]; !e.model {
				add(unanswered(h, e))
				break
			}
		}
		if h.Name != "llm_cache" {
			continue
		}
		if f.credential != "" {
			add(Finding{
				Message: "all requests are of one tenant, and share its sessions: a handler before llm_cache writes the same " +
					"credential into each",
				Handler: "headers", Remedy: "tell people apart by the option tenant; the header is " + f.credential,
			})
		}
		if f.times > 1 {
			add(Finding{
				Message: "llm_cache stands twice in the way of one request",
				Remedy:  "once is enough: take one of them away",
			})
		}
		out = append(out, w.passed(h, f)...)
		out = append(out, behind(f.back)...)
	}
	return out
}

// sharedCredential returns the header in which earlier handlers write the same credential into
// every request. It returns "" if the llm_cache does not distinguish tenants by credentials, or
// users are authenticated before.
func sharedCredential(before []met, cache any) (name string) {
	if c, ok := cache.(interface{ ByCredentials() bool }); !ok || !c.ByCredentials() {
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

// guarded reports whether an earlier handler in the same site may refuse strangers. A site without
// a public name needs none.
func (w *walk) guarded(h *Handler) bool {
	return !w.tree.public[h.site] || slices.ContainsFunc(w.tree.handlers[:h.place], func(o *Handler) bool {
		return o.site == h.site && (o.Name == "authentication" || o.Name == "static_response" || o.Name == "error" ||
			o.unknown() || o.Name == "reverse_proxy" && !o.model())
	})
}

func (w *walk) unreached(h *Handler) Finding {
	others := w.others[h.site]
	if h.named != nil {
		return Finding{Message: h.Name + " is never reached: nothing invokes its named route", Remedy: "invoke " +
			h.named.name}
	}
	for _, model := range []bool{true, false} { // a proxy is more informative than other handlers
		for _, by := range others {
			if by.model() == model {
				return Finding{
					Message: h.Name + " is never reached: what stands in front of it answers every request", Handler: by.Name,
					Remedy: "put " + h.Name + " first, in the same block",
				}
			}
		}
	}
	return Finding{
		Message: h.Name + " is never reached: no request for a model is led to it",
		Remedy:  "look at the matchers around it",
	}
}

func unanswered(h *Handler, e ending) Finding {
	switch {
	case e.by != nil && e.by.Name == "llm_cache_dashboard":
		return Finding{
			Message: "llm_cache_dashboard takes all requests that " + h.Name + " passes on: they reach no model",
			Handler: e.by.Name,
			Remedy:  "give it a path: llm_cache_dashboard /team/*",
		}
	case e.by != nil:
		return Finding{
			Message: "no reverse_proxy stands behind " + h.Name + ": requests reach no model", Handler: e.by.Name,
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

// passed reports requests that an earlier route answers, although llm_cache would get them
// otherwise.
func (w *walk) passed(h *Handler, f *facts) []Finding {
	var paths []string
	var by *Handler
	for _, api := range apis {
		if o := w.bypass[prompt{h.site, api}]; o != nil && o.place < h.place {
			paths, by = append(paths, api), o
		}
	}
	if by == nil || !f.plain || h.fallback {
		return nil
	}
	return []Finding{{
		Message: "requests pass llm_cache by: a route in front of it answers them", Handler: by.Name, Paths: paths,
		Remedy: "put llm_cache into that route, or in front of it",
		// A single API may be excluded on purpose.
		Note: len(paths) < len(apis)-1,
	}}
}

// behind reports later handlers that change the responses that llm_cache reads.
func behind(list []*Handler) []Finding {
	var out []Finding
	for _, h := range list {
		if m, ok := h.module.(*reverseproxy.Handler); ok && m.ResponseBuffers != 0 {
			out = append(out, Finding{
				Message: "response_buffers behind llm_cache holds answers back: nothing streams", Handler: h.Name,
				Remedy: "take response_buffers out of reverse_proxy",
			})
		}
		option := ""
		for _, r := range h.responses {
			switch {
			case !r.refusals:
			case r.status != "":
				option = "replace_status"
			default:
				option = "handle_response"
			}
		}
		if option != "" {
			out = append(out, Finding{
				Message: option + " behind llm_cache changes refusals of the upstream, which llm_cache reads and clients act on",
				Handler: h.Name,
				Remedy:  "put intercept in front of llm_cache instead, if statuses have to be changed", Note: true,
			})
		}
	}
	return out
}
