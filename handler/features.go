// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/feature"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/selfrequest"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/resource"
)

// features are the hooks of a site's features, in the order of their names.
type features struct {
	site     *feature.Site
	sends    selfrequest.Kind
	rewrites []func() bool
	serve    []func(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) (bool, error)
	arrive   []func()
	complete []func(r *http.Request, p *feature.Request, v *wire.View, room func(int64) bool) *wire.View
	attend   []func(w http.ResponseWriter, r *http.Request, p *feature.Request, stamp func(http.Header)) feature.Attendant
	answered []func(*feature.Answered) bool
	forget   []func(r *http.Request, x *resource.Resource) func() bool
	health   map[string]func() any
	close    []func()
}

// LoadFeatures loads the configured features. Until then the handler has none.
func (h *Handler) LoadFeatures(ctx caddy.Context) (err error) {
	h.features, err = feature.Load(ctx, h.FeaturesRaw)
	return err
}

// Feature returns the configuration of a loaded feature.
func (h *Handler) Feature(name string) feature.Feature { return h.features[name] }

// join opens the features of the site, and puts their layers into its chain.
func (o *site) join(h *Handler) error {
	f := &o.features
	f.site = &feature.Site{
		State: o.store, Upstream: o.up, Configured: h.Upstream, Pipeline: o.pipe, Log: o.up.Log, Now: o.now, Parse: o.parse,
		UpstreamKey: o.upstreamKey,
		CollectionKey: func(r *http.Request, x *resource.Resource) string {
			return o.upstreamKeyAt(r, x.Collection(knownPath(r)))
		},
		Warn: func(r *http.Request, format wire.Format, reason string, err error) {
			o.notes.warn(r, format, bypass{reason: reason, err: err})
		},
		Serve: o.serve,
	}
	// A feature that fails to open must not keep the shares of those before it.
	defer func() { h.shares = append(h.shares, f.site.Shares()...) }()
	layers := map[string]feature.Layer{}
	for _, name := range slices.Sorted(maps.Keys(h.features)) {
		part, err := h.features[name].Open(f.site)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		maps.Copy(layers, part.Layers)
		f.add(name, part)
	}
	var err error
	o.chain, err = links(layers)
	return err
}

func (f *features) add(name string, p *feature.Part) {
	f.sends |= p.Sends
	f.rewrites = hook(f.rewrites, p.Rewrites, p.Rewrites != nil)
	f.serve = hook(f.serve, p.Serve, p.Serve != nil)
	f.arrive = hook(f.arrive, p.Arrive, p.Arrive != nil)
	f.complete = hook(f.complete, p.Complete, p.Complete != nil)
	f.attend = hook(f.attend, p.Attend, p.Attend != nil)
	f.answered = hook(f.answered, p.Answered, p.Answered != nil)
	f.forget = hook(f.forget, p.Forget, p.Forget != nil)
	f.close = hook(f.close, p.Close, p.Close != nil)
	if p.Health != nil {
		if f.health == nil {
			f.health = map[string]func() any{}
		}
		f.health[name] = p.Health
	}
}

func hook[T any](all []T, f T, set bool) []T {
	if !set {
		return all
	}
	return append(all, f)
}

// rewrite reports whether a layer makes another form of the bodies.
func (f *features) rewrite() bool {
	return slices.ContainsFunc(f.rewrites, func(rewrites func() bool) bool { return rewrites() })
}

// answered tells the features of the end of a conversation's request. It reports whether one of them goes
// on with the exchange.
func (x *exchange) answered(err error) (goesOn bool) {
	if x.Purpose == aside || !x.ended() {
		return false
	}
	for _, f := range x.site.features.answered {
		if f(&feature.Answered{
			Request: &x.Request, Turn: x.turn, Err: err, Resent: x.resent, Held: x.session, Target: x.target, Keep: x.keepFolded,
		}) {
			goesOn = true
		}
	}
	return goesOn
}

// forgets returns a function that drops a deleted answer from all memories, and reports whether it was
// kept nowhere else. It must be called before r is changed.
func (o *site) forgets(r *http.Request, x *resource.Resource) func() bool {
	all := make([]func() bool, 0, len(o.features.forget))
	for _, f := range o.features.forget {
		all = append(all, f(r, x))
	}
	return func() (own bool) {
		for _, forget := range all {
			own = forget() || own
		}
		return own
	}
}
