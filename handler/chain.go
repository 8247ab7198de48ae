// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/feature"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// The purposes of requests, for the chain.
const (
	conversing  = feature.Conversing
	sideRequest = feature.SideRequest
	unparsed    = feature.Unparsed
	unlooked    = feature.Unlooked
	slotless    = feature.Slotless
	pinging     = feature.Pinging
	folding     = feature.Folding
	warming     = feature.Warming
)

// Sites that have a layer.
var (
	everySite  = func(*upstream.Profile) bool { return true }
	configured = func(up *upstream.Profile) bool { return up.Upstream != nil } // the upstream's kind is known
	local      = (*upstream.Profile).Local
	translates = func(up *upstream.Profile) bool { return up.Upstream != nil || up.BufferCalls || up.JoinCalls }
)

// chain lists the layers between the handler and the upstream, outermost first, with the kinds of
// requests that pass each, and the sites that have each. A new layer is a line here and a file of its own.
// A layer without a function is that of a feature, and is left out where the site has none of that name.
// A layer gets its inputs from the passage and knows neither the handler nor the exchange.
var chain = [...]struct {
	name  string
	takes feature.Purpose
	of    func(*upstream.Profile) bool
	layer func(p *passage, next caddyhttp.Handler) caddyhttp.Handler
}{
	{"span", conversing | sideRequest, everySite, func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
		if p.span == nil {
			return next
		}
		return p.span.Layer(next)
	}},
	{"unkept ids", conversing | sideRequest, everySite, func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
		if !p.unkept {
			return next
		}
		return upstream.Unkept(next)
	}},
	{"applied edits", conversing | sideRequest, everySite, func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
		if p.cleared == nil {
			return next
		}
		return p.site.up.Applied(next, p.Format, p.cleared)
	}},
	{"rejoin", conversing, everySite, nil},
	{"queue", conversing | unparsed | unlooked, everySite, nil},
	{"beside the queue", slotless, everySite, nil},
	{"coalesce", conversing, everySite, func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
		if p.prefix == nil {
			return next
		}
		return p.site.coalesced(next, p.prefix)
	}},
	{"usage", conversing | sideRequest, everySite, func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
		if !p.asksUsage {
			return next
		}
		return p.site.usage.layer(next, p)
	}},
	{
		"translate", conversing | sideRequest | unparsed | pinging | folding, translates,
		func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
			return p.site.up.Translate(next, p.Format, p.Tenant, p.Session, p.View)
		},
	},
	{
		"tool changes", conversing | sideRequest | unparsed | folding | slotless, local,
		func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
			return p.site.up.ToolChanges(next, p.Format)
		},
	},
	{"overlay", conversing | folding, everySite, nil},
	{"prefix recorder", conversing, everySite, nil},
	{
		"compat", conversing | sideRequest | unparsed | folding | warming, configured,
		func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
			return p.site.up.Compat(next, p.Format, p.View)
		},
	},
	{
		"schemas", conversing | sideRequest | pinging | folding | warming, everySite,
		func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
			return p.site.up.Schemas(next, p.Format, p.View)
		},
	},
	{
		"amend", conversing | sideRequest | unparsed | folding, configured,
		func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
			return p.site.up.Amend(next, p.Format)
		},
	},
	{
		"tags", conversing | sideRequest | pinging | folding, everySite,
		func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
			return p.site.up.Untagged(next, p.Format, p.View)
		},
	},
	{"unpack", conversing | sideRequest | unparsed, everySite, func(_ *passage, next caddyhttp.Handler) caddyhttp.Handler {
		return upstream.Unpack(next)
	}},
	{
		"address", conversing | sideRequest | unparsed | unlooked | slotless | pinging, configured,
		func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
			return p.site.up.Address(next, p.Format)
		},
	},
	{
		"sign", conversing | sideRequest | unparsed | unlooked | slotless | pinging | folding | warming, configured,
		func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
			return p.site.up.Sign(next)
		},
	},
	{"rate limit", conversing | sideRequest, everySite, func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
		if p.site.fallback == nil {
			return next
		}
		return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			return httpx.Retry(w, r, &rateWait{next: next})
		})
	}},
	{"threads", conversing, everySite, nil},
	{"websocket", conversing, everySite, nil},
	{"letta", conversing, everySite, nil},
	{"retain", conversing | pinging | folding, everySite, nil},
	{"side requests", sideRequest, everySite, func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
		return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			if p.site.up.HasKey() { // the client's credentials are for this site
				r = tenant.WithoutCredentials(r)
			}
			return p.site.sides.ServeHTTP(w, r, next)
		})
	}},
}

// passage has the inputs of the layers for one request.
type passage struct {
	feature.Request
	site    *site
	span    *Span                // nil where nothing is traced
	cleared func() *wire.Cleared // the parts of the prompt cleared on the client's order, nil without an order
	prefix  *sharedPrefix        // nil where there is nothing to wait for
	unkept  bool                 // the client gets ids of answers that no provider keeps
	// asksUsage has the usage of the answer asked for in place of the client.
	asksUsage bool
}

// link is a layer of a site's chain.
type link struct {
	takes feature.Purpose
	layer func(p *passage, next caddyhttp.Handler) caddyhttp.Handler
}

// links returns the chain of a site with an upstream, with the layers of features.
func links(up *upstream.Profile, of map[string]feature.Layer) ([]link, error) {
	var all []link
	for _, l := range chain {
		if !l.of(up) {
			continue
		}
		layer := l.layer
		if layer == nil {
			f := of[l.name]
			if f == nil {
				continue
			}
			delete(of, l.name)
			layer = func(p *passage, next caddyhttp.Handler) caddyhttp.Handler { return f(next, &p.Request) }
		}
		all = append(all, link{l.takes, layer})
	}
	if len(of) > 0 {
		return nil, fmt.Errorf("the chain has no layer %q", slices.Min(slices.Collect(maps.Keys(of))))
	}
	return all, nil
}

// through returns next behind the layers that are for the request.
func (p *passage) through(next caddyhttp.Handler) caddyhttp.Handler {
	for _, l := range slices.Backward(p.site.chain) {
		if l.takes&p.Purpose != 0 {
			next = l.layer(p, next)
		}
	}
	return next
}

// unknown is the passage of a client's request that is of no conversation we know.
func (o *site) unknown(r *http.Request, why feature.Purpose, format wire.Format) *passage {
	return &passage{site: o, Request: feature.Request{Purpose: why, Format: format, User: o.userOf(r).Name}}
}
