// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// cached describes the upstream's cache before the request arrives.
type cached struct {
	// forwarded is the number of blocks that may be cached in the bytes of the last request.
	forwarded int
	// held is the number of blocks that the provider received unmodified, in requests with the end
	// of the conversation only. Admission leaves them alone.
	held int
	// cold reports that the upstream's cache has certainly expired.
	cold bool
	// settled is the end of the last fold, in blocks.
	settled int
}

func newCached(h *content.History, rules *pricing.Rules, s *sessioncache.Session, l *sessioncache.Lineage, now time.Time) cached {
	if l == nil {
		// This process has not seen the history. If it has been watching for longer than any
		// lifetime, the cache is cold. Otherwise the cache may be warm, and every block that an
		// upstream may have received counts as forwarded.
		longest := rules.TTL // the requested lifetime, markers excepted
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
