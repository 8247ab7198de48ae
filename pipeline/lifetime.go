// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"bytes"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// lengthens reports whether the client's markers are sent with the long lifetime: if the session
// wants it and the client names none.
func (r *request) lengthens(l *sessioncache.Lineage) bool {
	wanted := r.session.Lifetime
	if wanted == sessioncache.LifetimeAsked || r.rules.Regime != pricing.Markers || r.rules.LongTTL == 0 ||
		!r.View.Traits().Markers || !r.View.OffersTools() || !r.View.Conversation.Thread.Empty() || chosen(r.View) {
		return false
	}
	// The long lifetime is paid with the write. So a conversation changes only without a live
	// cache, and then keeps its lifetime.
	if l != nil && l.TTL == r.rules.LongTTL && !r.cached.cold {
		return true
	}
	return wanted == sessioncache.LifetimeLong && (r.cached.cold || l == nil && r.cached.forwarded == 0)
}

// chosen reports whether the client names a lifetime, or sets no marker.
func chosen(v *wire.View) bool {
	open := false
	names := func(marker []byte) bool {
		open = open || len(marker) > 0
		return bytes.Contains(marker, []byte(`"ttl"`))
	}
	for i := range v.Blocks {
		if m := v.Blocks[i].Marker; !m.Empty() && names(v.Bytes(m)) {
			return true
		}
	}
	return names(v.Bytes(v.Caching.AutoMarker)) || !open
}

var longTTL = wire.Member{Name: "ttl", Value: []byte(`"1h"`)}

// lengthened appends the edits that give the client's own markers the long lifetime.
func (r *request) lengthened(edits []wire.Edit) []wire.Edit {
	if !r.marking.long {
		return edits
	}
	for i := range r.View.Blocks {
		m := r.View.Blocks[i].Marker
		if m.Empty() || i >= r.View.System && r.Removed(i-r.View.System) {
			continue
		}
		if value, err := wire.Patch(r.View.Bytes(m), longTTL); err == nil {
			edits = append(edits, wire.Edit{Block: i, Op: wire.OpMark, Value: value})
		}
	}
	return edits
}

// lengthenAuto gives the marker of the whole request the long lifetime.
func (r *request) lengthenAuto(body []byte) ([]byte, error) {
	if !r.marking.long || r.View.Caching.AutoMarker.Empty() {
		return body, nil
	}
	value, err := wire.Patch(r.View.Bytes(r.View.Caching.AutoMarker), longTTL)
	if err != nil {
		return nil, err
	}
	return wire.Patch(body, wire.Member{Name: "cache_control", Value: value})
}
