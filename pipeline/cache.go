// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
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

// plannerPrices returns the prices of a conversation. The price of a write depends on the lifetime
// of its cached prefix.
func plannerPrices(r *pricing.Rules, l *sessioncache.Lineage) planner.Prices {
	p := planner.Prices{Write: r.Write, Read: r.Read, MinTokens: r.MinTokens, Window: r.ContextWindow}
	if l != nil && r.LongTTL > 0 && l.TTL == r.LongTTL {
		p.Write = r.Write1h
	}
	return p
}

// liveEntries appends the ends of the cache entries that are certainly alive.
func liveEntries(ends []int, l *sessioncache.Lineage, ttl time.Duration, now time.Time) []int {
	if l == nil {
		return ends
	}
	if l.TTL != 0 {
		ttl = l.TTL
	}
	for _, e := range l.Ends {
		if now.Sub(e.At) < ttl-ttlMargin(ttl) {
			ends = append(ends, e.Blocks)
		}
	}
	return ends
}

// hasLapsed reports whether the entry before the first message block may have expired.
func hasLapsed(l *sessioncache.Lineage, ttl time.Duration, now time.Time) bool {
	if l == nil {
		return false
	}
	if l.TTL != 0 {
		ttl = l.TTL
	}
	// Reading a longer prefix does not refresh this entry; a request after its end writes it again.
	at, known := l.Ends.Marked(0)
	return known && now.Sub(at) >= ttl-ttlMargin(ttl)
}

// hasExpired reports whether the cached prefix of a conversation has certainly expired.
func hasExpired(v *wire.View, rules *pricing.Rules, l *sessioncache.Lineage, now time.Time) bool {
	ttl := l.TTL
	if ttl == 0 {
		ttl = rules.Lifetime(content.LongMarker(v))
	}
	return ttl > 0 && !l.Started.IsZero() && now.Sub(l.LastUse()) > ttl+ttlMargin(ttl)
}

// ttlMargin is the safety margin around a lifetime: clocks differ, and the request takes time to
// arrive.
func ttlMargin(ttl time.Duration) time.Duration { return min(ttl/10, time.Minute) }
