// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/routes"
)

func (e *exam) config(ctx context.Context) {
	root := gjson.ParseBytes(e.Config)
	root.Get("apps.http.servers").ForEach(func(name, server gjson.Result) bool {
		e.look("server %s of the configuration", name.String())
		for _, key := range []string{"write_timeout", "read_timeout"} {
			if d := duration(server.Get(key)); d > 0 && d < 5*time.Minute {
				e.find("server "+name.String(), "%s is %s: answers of minutes are cut off. Take it away, or set 10m at least.",
					key, d)
			}
		}
		e.exposed(server)
		return true
	})
	e.routes(ctx, root.Get("apps.http.servers").Raw)
	if root.Get("admin.disabled").Bool() {
		e.find("configuration",
			"admin off: statusline, and the admin API of llm_cache, cannot be asked. Leave it on at its local address.")
	}
	e.audit(root.Get("apps.llm_cache.audit"))
	if !root.Get("admin.disabled").Bool() {
		e.resends(ctx, root.Get("admin.listen").String())
	}
}

func duration(v gjson.Result) time.Duration {
	if v.Type == gjson.String {
		d, _ := time.ParseDuration(v.String())
		return d
	}
	return time.Duration(v.Int())
}

func (e *exam) routes(ctx context.Context, raw string) {
	var servers map[string]*caddyhttp.Server
	if err := json.Unmarshal([]byte(raw), &servers); raw != "" && err != nil {
		e.find("configuration", "the servers cannot be read: %v", err)
		return
	}
	report := routes.Examine(servers)
	if len(report.Caches) == 0 {
		e.find("configuration", "no site has llm_cache: put it into the site, in front of reverse_proxy.")
	}
	for _, f := range report.Findings {
		what := f.Message
		if about := slices.DeleteFunc(append([]string{f.Handler}, f.Paths...),
			func(s string) bool { return s == "" }); len(about) > 0 {
			what += " (" + strings.Join(about, ", ") + ")"
		}
		what += ". " + strings.ToUpper(f.Remedy[:1]) + f.Remedy[1:] + "."
		if f.Note {
			e.note("site", "%s", what)
		} else {
			e.find("site", "%s", what)
		}
	}
	for _, server := range servers {
		for _, listen := range server.Listen {
			if a, err := caddy.ParseNetworkAddress(listen); err == nil {
				e.listen = append(e.listen, a)
			}
		}
	}
	asked := map[*routes.Handler]bool{}
	for _, cache := range report.Caches {
		handler := gjson.ParseBytes(cache.Config)
		if n := handler.Get("max_body").Int(); n > 0 && n < 1<<20 {
			e.find("site", "max_body is %d bytes: nearly every conversation is larger. 32MiB is the default.", n)
		}
		for _, h := range append(cache.Before, cache.Behind...) {
			config := gjson.ParseBytes(h.Config)
			if n := config.Get("max_size").Int(); h.Name == "request_body" && n > 0 && n < 8<<20 && !asked[h] {
				e.find("site", "request_body max_size is %d bytes: long conversations are larger. Set 32MiB.", n)
			}
			if h.Name == "reverse_proxy" && slices.Contains(cache.Behind, h) && !asked[h] {
				e.proxy(ctx, handler, config)
				e.headers(config)
			}
			asked[h] = true
		}
	}
}

// headers examines the headers that are set on requests to the upstream.
func (e *exam) headers(proxy gjson.Result) {
	proxy.Get("headers.request.set").ForEach(func(name, values gjson.Result) bool {
		value := values.Get("0").String()
		switch key := http.CanonicalHeaderKey(name.String()); key {
		case "Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key":
			variable, isVariable := strings.CutPrefix(strings.Trim(strings.TrimPrefix(value, "Bearer "), "{}"), "env.")
			if isVariable && e.Getenv(variable) == "" {
				e.note("reverse_proxy",
					"header_up %s takes its key from %s, which is not set here. Set it where Caddy runs.", key, variable)
			} else if strings.TrimSpace(strings.TrimPrefix(value, "Bearer")) == "" {
				e.note("reverse_proxy",
					"header_up %s writes an empty key: the variable in it is not set here. Set it where Caddy runs.", key)
			}
		case "Accept-Encoding":
			if value != "identity" {
				e.note("reverse_proxy",
					"header_up Accept-Encoding asks the upstream for %s, and llm_cache has to unpack each answer. Take it away; "+
						"encode in the site compresses towards clients.", value)
			}
		}
		return true
	})
}

func public(server gjson.Result) []string {
	var out []string
	server.Get("routes.#.match.#.host|@flatten|@flatten").ForEach(func(_, host gjson.Result) bool {
		if name := host.String(); routes.Public(name) {
			out = append(out, name)
		}
		return true
	})
	return out
}

// exposed examines the sites with llm_cache for names served without TLS.
func (e *exam) exposed(server gjson.Result) {
	if !strings.Contains(server.Raw, `"handler":"llm_cache"`) {
		return
	}
	names := public(server)
	secure := server.Get("tls_connection_policies").Exists()
	plain := !secure && !server.Get("listen").IsArray()
	skipped := server.Get("automatic_https.skip").Raw + server.Get("automatic_https.skip_certificates").Raw
	server.Get("listen").ForEach(func(_, listen gjson.Result) bool {
		plain = plain || !secure && strings.HasSuffix(listen.String(), ":80")
		return true
	})
	for _, name := range names {
		if plain || !secure && (server.Get("automatic_https.disable").Bool() || strings.Contains(skipped, `"`+name+`"`)) {
			e.note("site",
				"%s is served without TLS, and keys cross the network in the clear. Write the name without http://, and Caddy "+
					"gets a certificate.", name)
		}
	}
}

// hosted are the hosts of the providers, by preset.
var hosted = map[string]string{
	"anthropic": "api.anthropic.com", "openai": "api.openai.com",
	"gemini": "generativelanguage.googleapis.com",
}

func (e *exam) proxy(ctx context.Context, cache, proxy gjson.Result) {
	preset := cache.Get("upstream.preset").String()
	secure := proxy.Get("transport.tls").Exists()
	if d := duration(proxy.Get("transport.response_header_timeout")); d > 0 && d < 2*time.Minute {
		e.find("reverse_proxy", "response_header_timeout is %s: a model reads a long prompt for longer. Take it away.", d)
	}
	if d := duration(proxy.Get("transport.read_timeout")); d > 0 && d < 2*time.Minute {
		e.find("reverse_proxy", "read_timeout is %s: a model may be silent for longer. Take it away.", d)
	}
	proxy.Get("upstreams").ForEach(func(_, u gjson.Result) bool {
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
		// Missing folders are created if an existing parent is writable.
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
