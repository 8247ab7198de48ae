// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"bytes"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

type marker struct {
	block int // in view.Blocks
	long  bool
}

// markers checks a request's cache_control and returns its markers in prompt order, with those that the API adds.
func markers(v *wire.View, r Rules) ([]marker, *APIError) {
	var marks []marker
	count, short := 0, false
	for i := range v.Blocks {
		b := &v.Blocks[i]
		if b.Marker.Empty() {
			continue
		}
		long, err := markerTTL(v, b.Marker, path(v, i)+".cache_control")
		if err != nil {
			return nil, err
		}
		switch {
		case b.IsThinking():
			return nil, invalidf("%s.%s.cache_control: Extra inputs are not permitted", path(v, i), b.Kind)
		case b.Has(wire.FlagDeferred):
			return nil, invalidf("Tool '%s' cannot have both defer_loading=true and cache_control set. "+
				"Tools with defer_loading cannot use prompt caching.", v.Text(b.Name))
		case b.Kind == wire.KindText && b.Has(wire.FlagEmpty):
			return nil, invalidf("%s.text: cache_control cannot be set for empty text blocks", path(v, i))
		}
		// Anthropic wants long lifetimes before short ones.
		if long && short {
			return nil, lateLong(path(v, i) + ".cache_control")
		}
		short = short || !long
		count++
		marks = append(marks, marker{i, long})
	}
	// The automatic marker of the top level stands at the last block that can carry one.
	if !v.Caching.AutoMarker.Empty() {
		long, err := markerTTL(v, v.Caching.AutoMarker, "cache_control")
		if err != nil {
			return nil, err
		}
		i := lastCacheable(v)
		last := len(marks) - 1
		switch {
		case i < 0:
		case last >= 0 && marks[last].block == i && marks[last].long == long: // as it is
		case last >= 0 && marks[last].block == i:
			return nil, invalidf("cache_control: the last cacheable block, `%s`, has a cache_control of its own "+
				"with a different ttl", path(v, i))
		case long && short:
			return nil, lateLong("cache_control")
		default:
			count++
			marks = append(marks, marker{i, long})
		}
	}
	// The automatic marker counts against the limit, the API's own below do not.
	if r.Markers > 0 && count > r.Markers {
		return nil, invalidf("A maximum of %d blocks with cache_control may be provided. Found %d.", r.Markers, count)
	}
	if count == 0 {
		return nil, nil
	}
	return withServerTools(v, marks), nil
}

func lateLong(path string) *APIError {
	return invalidf("%s.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note "+
		"that blocks are processed in the following order: `tools`, `system`, `messages`.", path)
}

// markerTTL reports whether a marker asks for the long lifetime.
func markerTTL(v *wire.View, s rawjson.Span, path string) (bool, *APIError) {
	switch ttl := gjson.GetBytes(s.Of(v.Raw), "ttl"); {
	case !ttl.Exists(), ttl.Str == "5m":
		return false, nil
	case ttl.Str == "1h":
		return true, nil
	}
	return false, invalidf("%s.ephemeral.ttl: Input should be '5m' or '1h'", path)
}

func lastCacheable(v *wire.View) int {
	for i := len(v.Blocks) - 1; i >= 0; i-- {
		b := &v.Blocks[i]
		if b.IsThinking() || b.Has(wire.FlagDeferred) || b.Kind == wire.KindText && b.Has(wire.FlagEmpty) {
			continue
		}
		return i
	}
	return -1
}

// withServerTools adds the API's own short markers.
func withServerTools(v *wire.View, marks []marker) []marker {
	all, next := marks[:0:0], 0
	for i := range v.Blocks {
		if next < len(marks) && marks[next].block == i {
			all = append(all, marks[next])
			next++
			continue
		}
		b := &v.Blocks[i]
		// The API sets one at each result of a server tool as soon as there is any other marker.
		if b.Kind != wire.KindServerTool {
			continue
		}
		s := b.Span.Of(v.Raw)
		if bytes.Contains(s, []byte("tool_result")) && gjson.GetBytes(s, "type").Str != "server_tool_use" {
			all = append(all, marker{i, false})
		}
	}
	return all
}

// chatMarkers returns the cache_control of content parts in the chat format.
func chatMarkers(v *wire.View, r Rules) []marker {
	if r.Regime != Markers {
		return nil
	}
	var marks []marker
	for i := range v.Blocks {
		// Hosts that take them check nothing and ignore surplus ones.
		if b := &v.Blocks[i]; !b.Marker.Empty() && len(marks) < r.Markers {
			marks = append(marks, marker{i, member(v, b.Marker, "ttl") == "1h"})
		}
	}
	return marks
}

// place finds the positions of markers in a prompt.
func place(p *prompt, marks []marker) []breakpoint {
	bps := make([]breakpoint, 0, len(marks))
	at := 0
	for _, m := range marks {
		for at < len(p.block) && int(p.block[at]) < m.block {
			at++
		}
		// Markers of omitted blocks go with them.
		if at < len(p.block) && int(p.block[at]) == m.block {
			bps = append(bps, breakpoint{at, m.long})
		}
	}
	return bps
}
