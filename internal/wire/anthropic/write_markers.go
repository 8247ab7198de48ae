// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package anthropic

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// maxMarkers is the maximum number of blocks with a cache_control in a request.
const maxMarkers = 4

// markLast marks the last block of the messages.
func (w *writer) markLast(marker rawjson.Value) {
	if n := len(w.Messages); n > 0 {
		if parts := w.Messages[n-1].Parts; len(parts) > 0 {
			parts[len(parts)-1].Cache = marker
		}
	}
}

// marks counts the markers of a request.
func (w *writer) marks() (n int) {
	for _, t := range w.Tools {
		n += marked(t.Cache)
	}
	for _, p := range w.System() {
		n += marked(p.Cache)
	}
	for _, m := range w.Messages {
		for _, p := range m.Parts {
			n += marked(p.Cache)
			for _, c := range p.Content {
				n += marked(c.Cache)
			}
		}
	}
	return n
}

func marked(cache rawjson.Value) int {
	if cache == nil {
		return 0
	}
	return 1
}

func (w *writer) mark(cache rawjson.Value) {
	if cache == nil {
		return
	}
	field := w.Client.MarkerField(translate.InMessages)
	// Clients of other formats may set more markers than the API takes. The last ones count, as at OpenAI.
	if w.surplus > 0 {
		w.surplus--
		w.Drop(field)
		return
	}
	ttl := cache.Member("ttl").Str()
	// The API refuses a long lifetime after a short one.
	if ttl != "" && ttl != "5m" && (ttl != "1h" || w.short) || !cache.IsObject() {
		w.Drop(field + ".ttl")
		cache, ttl = rawjson.Value(`{"type":"ephemeral"}`), ""
	}
	w.short = w.short || ttl != "1h"
	w.Member("cache_control", cache)
}
