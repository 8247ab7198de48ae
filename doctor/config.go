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

package doctor

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/audit"
)

// terminal are the handlers that answer: what stands behind them in a route that
// takes all requests is never reached.
var terminal = map[string]bool{"reverse_proxy": true, "static_response": true, "file_server": true, "error": true, "llm_cache_simulator": true}

// link is one handler in the order in which a request meets it.
type link struct {
	handler gjson.Result
	name    string
	matched bool // only some requests meet it
}

// config examines a configuration.
func (e *exam) config(ctx context.Context) {
	root := gjson.ParseBytes(e.Config)
	caches := 0
	root.Get("apps.http.servers").ForEach(func(name, server gjson.Result) bool {
		e.look("server %s of the configuration", name.String())
		for _, key := range []string{"write_timeout", "read_timeout"} {
			if d := duration(server.Get(key)); d > 0 && d < 5*time.Minute {
				e.find("server "+name.String(), "%s is %s: answers of minutes are cut off. Take it away, or set 10m at least.", key, d)
			}
		}
		for _, chain := range chains(server.Get("routes"), nil, false) {
			caches += e.chain(ctx, chain)
		}
		return true
	})
	if caches == 0 {
		e.find("configuration", "no site has llm_cache: put it into the site, in front of reverse_proxy.")
	}
	if root.Get("admin.disabled").Bool() {
		e.find("configuration", "admin off: statusline, and the admin API of llm_cache, cannot be asked. Leave it on at its local address.")
	}
	e.audit(root.Get("apps.llm_cache.audit"))
}

// duration reads one in JSON, in words or in nanoseconds.
func duration(v gjson.Result) time.Duration {
	if v.Type == gjson.String {
		d, _ := time.ParseDuration(v.String())
		return d
	}
	return time.Duration(v.Int())
}

// chains are the ways of requests through routes: one for each site.
func chains(routes gjson.Result, front []link, matched bool) [][]link {
	var out [][]link
	own := append([]link(nil), front...)
	routes.ForEach(func(_, route gjson.Result) bool {
		some := matched || route.Get("match").Exists()
		// A site: what it has inside is a way of its own.
		if site := route.Get("match.0.host"); site.Exists() && route.Get("terminal").Bool() {
			out = append(out, chains(route.Get("handle"), own, matched)...)
			return true
		}
		own = append(own, links(route.Get("handle"), some)...)
		return true
	})
	if routes.Get("0.handler").Exists() { // handlers, not routes
		own = append(append([]link(nil), front...), links(routes, matched)...)
	}
	if len(own) > len(front) {
		out = append(out, own)
	}
	return out
}

func links(handlers gjson.Result, matched bool) []link {
	var out []link
	handlers.ForEach(func(_, h gjson.Result) bool {
		name := h.Get("handler").String()
		if name != "subroute" {
			out = append(out, link{h, name, matched})
			return true
		}
		h.Get("routes").ForEach(func(_, route gjson.Result) bool {
			out = append(out, links(route.Get("handle"), matched || route.Get("match").Exists())...)
			return true
		})
		return true
	})
	return out
}

// chain examines one way and counts how often llm_cache stands in it.
func (e *exam) chain(ctx context.Context, chain []link) int {
	caches, proxies := 0, 0
	shadow := ""
	for i, l := range chain {
		switch {
		case l.name == "llm_cache":
			caches++
			e.cache(ctx, l, chain[i+1:], shadow)
		case l.name == "request_body" && l.handler.Get("max_size").Int() > 0 && l.handler.Get("max_size").Int() < 8<<20:
			e.find("site", "request_body max_size is %d bytes: long conversations are larger. Set 32MiB.", l.handler.Get("max_size").Int())
		}
		if l.name == "reverse_proxy" {
			proxies++
		}
		if terminal[l.name] && !l.matched && shadow == "" {
			shadow = l.name
		}
	}
	if caches > 1 {
		e.find("site", "llm_cache stands %d times in the way of one request; once is enough.", caches)
	}
	return caches
}

// cache examines one llm_cache, with what stands behind it, and what in front of it
// answers all requests.
func (e *exam) cache(ctx context.Context, l link, behind []link, shadow string) {
	if shadow == "reverse_proxy" {
		e.find("site", "llm_cache stands behind reverse_proxy and is never reached: it has to come first. Outside of route blocks Caddy sees to that.")
		return
	}
	if shadow != "" {
		e.find("site", "llm_cache is never reached: %s in front of it answers every request.", shadow)
		return
	}
	if n := l.handler.Get("max_body").Int(); n > 0 && n < 1<<20 {
		e.find("site", "max_body is %d bytes: nearly every conversation is larger. 32MiB is the default.", n)
	}
	answers := false
	for _, b := range behind {
		answers = answers || terminal[b.name]
		if b.name == "reverse_proxy" {
			e.proxy(ctx, l, b)
		}
	}
	if !answers {
		e.find("site", "nothing stands behind llm_cache: requests get an empty answer. Put reverse_proxy <upstream> there.")
	}
}

// hosted are the hosts of the providers, by preset.
var hosted = map[string]string{"anthropic": "api.anthropic.com", "openai": "api.openai.com", "gemini": "generativelanguage.googleapis.com"}

func (e *exam) proxy(ctx context.Context, cache, proxy link) {
	preset := cache.handler.Get("upstream.preset").String()
	secure := proxy.handler.Get("transport.tls").Exists()
	if d := duration(proxy.handler.Get("transport.response_header_timeout")); d > 0 && d < 2*time.Minute {
		e.find("reverse_proxy", "response_header_timeout is %s: a model reads a long prompt for longer. Take it away.", d)
	}
	if d := duration(proxy.handler.Get("transport.read_timeout")); d > 0 && d < 2*time.Minute {
		e.find("reverse_proxy", "read_timeout is %s: a model may be silent for longer. Take it away.", d)
	}
	proxy.handler.Get("upstreams").ForEach(func(_, u gjson.Result) bool {
		dial := u.Get("dial").String()
		host, _, _ := strings.Cut(dial, ":")
		for name, of := range hosted {
			if host != of {
				continue
			}
			if !secure {
				e.find("reverse_proxy", "%s is asked without TLS. Write reverse_proxy https://%s.", dial, host)
			}
			if _, known := hosted[preset]; known && preset != name {
				e.find("site", "upstream %s, but requests go to %s: its cache rules and prices are not those.", preset, host)
			}
		}
		if !strings.Contains(dial, "{") {
			e.upstream(ctx, dial, secure)
		}
		return true
	})
}

// audit examines where records go.
func (e *exam) audit(a gjson.Result) {
	path := a.Get("path").String()
	if path == "" {
		path = a.Get("writer.filename").String()
	}
	if path == "" || strings.Contains(path, "{") {
		return
	}
	e.look("the audit store %s", path)
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	if err != nil && os.IsNotExist(err) {
		// It is made, if the folder above can be written.
		for os.IsNotExist(err) && dir != filepath.Dir(dir) {
			dir = filepath.Dir(dir)
			info, err = os.Stat(dir)
		}
	}
	if err != nil || !info.IsDir() {
		e.find("audit", "%s is no folder: nothing can be recorded in %s.", dir, path)
		return
	}
	probe, err := os.CreateTemp(dir, ".llm-cache-doctor-*")
	if err != nil {
		e.find("audit", "%s cannot be written: %v", dir, err)
		return
	}
	_ = probe.Close()
	_ = os.Remove(probe.Name())
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		e.find("audit", "%s is a folder; the path of a file is wanted.", path)
		return
	} else if err != nil || a.Get("module").String() != "sqlite" {
		return
	}
	switch err := audit.CheckSQLite(path); {
	case err == nil, audit.ReasonOf(err) == audit.ReasonLocked:
	case audit.ReasonOf(err) == audit.ReasonDamaged:
		e.find("audit", "%v. Caddy sets it aside when it starts, and begins a new one.", err)
	default:
		e.find("audit", "%v. Records are kept in memory, and are lost when Caddy ends: name another file.", err)
	}
}
