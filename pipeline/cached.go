// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// cached is what the upstream holds of a request before it has come.
type cached struct {
	// forwarded is the number of blocks that may be cached upstream in the
	// bytes they went out in last time.
	forwarded int
	// held is the number of blocks that the provider has had as they came, in
	// requests that held the end of the conversation only: they are not admitted.
	held int
	// cold reports that the upstream's cache is known to have expired.
	cold bool
	// settled is where the last fold ended.
	settled int
}

func newCached(h *content.History, rules *pricing.Rules, s *sessioncache.Session, l *sessioncache.Lineage, now time.Time) cached {
	if l == nil {
		// A history that this process has not seen. If it has been watching for
		// longer than any lifetime, the cache is cold; else it may be warm, and
		// all that an upstream may have been shown counts as forwarded.
		longest := rules.TTL // which is what the request asks for, but for markers
		if rules.Regime == pricing.Markers {
			longest = max(longest, rules.LongTTL)
		}
		return cached{forwarded: h.LastSaid(), cold: rules.TTL > 0 && s.Unseen > longest+ttlMargin(longest)}
	}
	c := cached{forwarded: h.Known, cold: hasExpired(h.View, rules, l, now)}
	if l.Settled <= h.Known {
		c.settled = l.Settled
	}
	if l.Beyond && !h.View.Conversation.Partial && !c.cold {
		c.held = max(h.LastSaid(), h.Known)
		c.forwarded = c.held
	}
	return c
}
