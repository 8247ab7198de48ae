// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// charsPerToken is the approximate number of bytes per token in tools and system prompts.
const charsPerToken = 4

// Front returns the hash of the prefix that a new conversation shares with others, tools and system
// prompt, and its lifetime in the cache. It returns false if the provider does not cache that
// prefix separately.
func (x *Exchange) Front() (prefix wire.Hash, lifetime time.Duration, ok bool) {
	r := x.req
	v, rules := r.View, &r.rules
	// Sub-agents that start together share the prefix; continued conversations have longer ones.
	if x.standing.match.Lineage != nil || v.Conversation.Partial || !v.Conversation.Thread.Empty() || !v.OffersTools() || rules.TTL == 0 || rules.Read >= rules.Write {
		return prefix, 0, false
	}
	end := v.System
	// System messages at the start belong to the prefix.
	for end < len(v.Blocks) && v.Blocks[end].Role == wire.RoleSystem {
		end++
	}
	switch rules.Regime {
	case pricing.Markers, pricing.Breakpoints: // entries end at markers
		for end > 0 && !x.marked(end-1) {
			end--
		}
	case pricing.Automatic:
		if rules.Provider == "gemini" || rules.Provider == "vertex" { // these providers promise no entry
			return prefix, 0, false
		}
	default:
		return prefix, 0, false
	}
	h, size := sha256.New(), 0
	if rules.Regime != pricing.Markers {
		_, _ = h.Write([]byte(v.Session)) // prompt_cache_key: a cache does not share entries between keys
	}
	for i := range v.Blocks[:end] {
		_, _ = h.Write(v.Blocks[i].Hash[:])
		size += v.Blocks[i].Span.Len()
	}
	// The provider does not cache a prefix below its minimum.
	if size/charsPerToken < max(rules.MinTokens, 1) {
		return prefix, 0, false
	}
	copy(prefix[:], h.Sum(nil))
	return prefix, rules.TTL, true
}

// marked reports whether a block is sent with a marker.
func (x *Exchange) marked(i int) bool {
	return !x.req.View.Blocks[i].Marker.Empty() || slices.ContainsFunc(x.proposed.marks, func(e wire.Edit) bool { return e.Block == i })
}
