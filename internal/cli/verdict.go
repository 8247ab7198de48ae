// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/routes"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// route is the way of a client's requests.
type route struct {
	client, program string // the name for people, and that on record
	setting, base   string // the setting with the base URL, and its value
	models, prompt  string // the paths behind it: the list of models, and requests for a model
	format          wire.Format
	credential      http.Header

	here      bool     // a site of the configuration serves it
	reached   bool     // its base URL answers
	upstreams []string // behind the site
	through   passage
}

// passage tells whether a client's requests go through llm_cache.
type passage int

const (
	unknown passage = iota
	through
	past
)

// ways follows each client's requests through the sites of the configuration.
func (e *exam) ways(context.Context) {
	for _, r := range e.clients {
		u, err := url.Parse(r.base)
		if err != nil {
			continue
		}
		listening := false
		for _, name := range slices.Sorted(maps.Keys(e.servers)) {
			server := e.servers[name]
			if server == nil || !listens(server, u) || !loopback(u.Hostname()) && !slices.Contains(hosts(server), u.Hostname()) {
				continue
			}
			listening = true
			e.follow(r, server, u)
		}
		if !listening && loopback(u.Hostname()) && len(e.servers) > 0 {
			e.note(r.client, "%s is %s, and no site of the configuration listens there. Write %s.", r.setting, r.base,
				e.example(u.Path))
		}
	}
}

// follow follows a client's requests through a server.
func (e *exam) follow(r *route, server *caddyhttp.Server, u *url.URL) {
	for _, way := range routes.Trace(server, u.Hostname(), strings.TrimSuffix(u.Path, "/")+r.prompt) {
		if way.By == nil || len(way.By.Upstreams()) == 0 {
			continue
		}
		r.here = true
		if r.through == unknown {
			r.through = through
		}
		if way.Cache == nil {
			r.through = past
		}
		for _, to := range way.By.Upstreams() {
			name := to.Dial
			if host, port, err := net.SplitHostPort(name); err == nil && (port == "443" || port == "80") {
				name = host
			}
			if slices.Contains(r.upstreams, name) {
				continue
			}
			r.upstreams = append(r.upstreams, name)
			if way.Cache == nil {
				continue
			}
			if s := way.Cache.Settings(); !s.Upstream.Takes(r.format, s.Translate, to.Dial) {
				at := upstream.PresetAt(to.Dial)
				e.find(r.client, "its requests go to %s, which does not speak their format, %s: it answers 404. Lead %s to a "+
					"provider that does, or write upstream %s and a model into llm_cache, which then translates.", name, r.format,
					strings.TrimSuffix(u.Path, "/")+r.prompt, at)
			}
		}
	}
	if r.through == past {
		e.find(r.client, "its requests pass llm_cache by on the way to %s. Put llm_cache into that route.",
			strings.Join(r.upstreams, " and "))
	}
}

// verdicts tells the way of each client in a line.
func (e *exam) verdicts() (all []string) {
	gone := true
	for _, r := range e.clients {
		line := r.client + " → " + r.base
		if len(r.upstreams) > 0 {
			line += " → " + strings.Join(r.upstreams, ", ")
		}
		switch r.through {
		case through:
			line += ": through llm_cache" + e.day(r)
		case past:
			line += ": past llm_cache"
		default:
			line += ": whether llm_cache is there, could not be seen"
		}
		gone = gone && r.through == past
		all = append(all, say("%s", line))
	}
	if gone {
		all = append(all, say("no client on this machine goes through any site: set ANTHROPIC_BASE_URL to %s, or start the client "+
			"by caddy llm-cache wrap claude", e.example("")))
	}
	return all
}

// day tells of the day's requests of a client, if its site runs here.
func (e *exam) day(r *route) string {
	if u, err := url.Parse(r.base); err != nil || !e.runs || !r.here && !loopback(u.Hostname()) {
		return ""
	}
	i := slices.IndexFunc(e.today, func(s *audit.Sum) bool { return s.Name == r.program })
	if i < 0 || e.today[i].Turns == 0 {
		return ", no request today"
	}
	s := e.today[i]
	requests := fmt.Sprintf("%d requests", s.Turns)
	if s.Turns == 1 {
		requests = "1 request"
	}
	return fmt.Sprintf(", %s today, %.0f %% read from cache", requests, 100*s.ReadShare())
}

// example returns the address of a site with llm_cache, with a client's path, or words for it without a configuration.
func (e *exam) example(path string) string {
	for _, name := range slices.Sorted(maps.Keys(e.servers)) {
		server := e.servers[name]
		if server == nil || len(server.Listen) == 0 {
			continue
		}
		for _, host := range append(hosts(server), "localhost") {
			address, err := caddy.ParseNetworkAddress(server.Listen[0])
			if err != nil {
				continue
			}
			scheme, auto := "https", server.AutoHTTPS
			if host == "localhost" || address.StartPort == 80 ||
				auto != nil && (auto.Disabled || slices.Contains(auto.Skip, host)) {
				scheme = "http"
			}
			u := url.URL{Scheme: scheme, Host: host, Path: path}
			if p := address.StartPort; p != 80 && p != 443 {
				u.Host = net.JoinHostPort(host, strconv.FormatUint(uint64(p), 10))
			}
			if slices.ContainsFunc(routes.Trace(server, host, "/v1/messages"), func(w routes.Way) bool {
				return w.Cache != nil
			}) {
				return u.String()
			}
		}
	}
	return "the address of a site"
}

// hosts returns the names of a server's sites.
func hosts(server *caddyhttp.Server) (names []string) {
	for _, route := range server.Routes {
		for _, set := range route.MatcherSetsRaw {
			var list []string
			if json.Unmarshal(set["host"], &list) == nil {
				names = append(names, list...)
			}
		}
	}
	return names
}

func listens(server *caddyhttp.Server, u *url.URL) bool {
	port, err := strconv.ParseUint(portOf(u), 10, 16)
	return err == nil && slices.ContainsFunc(server.Listen, func(listen string) bool {
		a, err := caddy.ParseNetworkAddress(listen)
		return err == nil && uint64(a.StartPort) <= port && port <= uint64(a.EndPort)
	})
}

func portOf(u *url.URL) string {
	if u.Port() == "" && u.Scheme == "https" {
		return "443"
	}
	return cmp.Or(u.Port(), "80")
}

// sameAddress reports whether a URL has the address of an upstream.
func sameAddress(u *url.URL, dial string) bool {
	host, port, err := net.SplitHostPort(dial)
	return err == nil && port == portOf(u) && (host == u.Hostname() || loopback(host) && loopback(u.Hostname()))
}
