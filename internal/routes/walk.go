// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/rewrite"
)

// apis are paths of requests with prompts.
var apis = []string{"/v1/messages", "/v1/chat/completions", "/v1/responses", "/v1beta/models/m:generateContent"}

// maxSteps bounds the walk through one server: each route that may or may not match doubles the
// number of paths.
const maxSteps = 50_000

// newWalk reads a server for a walk. The walk of a server without handlers of ours is nil.
func newWalk(server *caddyhttp.Server) *walk {
	if server == nil {
		return nil
	}
	w := &walk{
		server: server, tree: read(server), facts: map[*Handler]*facts{}, others: map[int][]*Handler{},
		bypass: map[prompt]*Handler{}, arrivals: map[*Handler]*arrival{},
	}
	for _, h := range w.tree.handlers {
		if h.ours() {
			w.facts[h] = &facts{behind: map[int]ending{}}
		}
	}
	return w
}

func inOrder(list []*Handler) []*Handler {
	slices.SortFunc(list, func(a, b *Handler) int { return a.place - b.place })
	return slices.Compact(list)
}

// walk walks requests through the routes of one server.
type walk struct {
	server   *caddyhttp.Server
	tree     *tree
	steps    int
	host     string // the host of the request, "" for any
	probe    string // the path of the request
	facts    map[*Handler]*facts
	others   map[int][]*Handler    // by site, handlers that answer requests
	bypass   map[prompt]*Handler   // the proxy that answers without llm_cache
	arrivals map[*Handler]*arrival // at proxies
	ends     []Way                 // of requests for a host
}

// arrival has the paths at which requests arrive at a proxy.
type arrival struct {
	plain  bool   // some are those of an API, or unknown
	prefix string // of another one, in front of the path of an API
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
	taken := r.match(w.host, at.path)
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
			f.credential = cmp.Or(f.credential, sharedCredential(at.met[:i], m.Handler))
		}
	}
	// Uncertain matchers before one of the two may exclude the other.
	if len(caches) > 1 && (caches[0].assumed == 0 || caches[len(caches)-1].assumed == caches[0].assumed) {
		f := w.facts[caches[0].Handler]
		f.times = max(f.times, len(caches))
	}
	if w.host != "" {
		way := Way{By: by}
		if len(caches) > 0 {
			way.Cache = caches[0].Handler
		}
		w.ends = append(w.ends, way)
	}
	if by == nil {
		return
	}
	w.arrive(by, at.path)
	if !slices.Contains(w.others[at.site], by) {
		w.others[at.site] = append(w.others[at.site], by)
	}
	if p := (prompt{at.site, w.probe}); plain && !ours && at.assumed == 0 && by.model() && w.bypass[p] == nil {
		w.bypass[p] = by
	}
}

// arrive records the path at which a request arrives at the handler that answers it.
func (w *walk) arrive(by *Handler, path string) {
	a := w.arrivals[by]
	if a == nil {
		a = new(arrival)
		w.arrivals[by] = a
	}
	if a.plain = a.plain || path == "" || slices.Contains(apis, path); a.plain {
		return
	}
	for _, api := range apis {
		if prefix, ok := strings.CutSuffix(path, api); ok && !strings.HasPrefix(prefix, "/v1") {
			a.prefix = cmp.Or(a.prefix, prefix)
		}
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
