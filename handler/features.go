// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/feature"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/resource"
)

// openFeature is a feature of a site.
type openFeature struct {
	name string
	*feature.Part
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
	o.shown = &feature.Site{
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
	defer func() { h.shares = append(h.shares, o.shown.Shares()...) }()
	layers := map[string]feature.Layer{}
	for _, name := range slices.Sorted(maps.Keys(h.features)) {
		part, err := h.features[name].Open(o.shown)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		maps.Copy(layers, part.Layers)
		o.features = append(o.features, openFeature{name, part})
		o.internal |= part.Sends
		o.rewrites = o.rewrites || part.Rewrites
	}
	var err error
	o.chain, err = links(layers)
	return err
}
