// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package outlook

import (
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/cachemodel"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/history"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// Prices are those of a conversation: a token is written with the lifetime that
// its prefix has.
func Prices(r *cachemodel.Rules, l *sessioncache.Lineage) planner.Prices {
	p := planner.Prices{Write: r.Write, Read: r.Read, MinTokens: r.MinTokens, Window: r.ContextWindow}
	if l != nil && r.LongTTL > 0 && l.TTL == r.LongTTL {
		p.Write = r.Write1h
	}
	return p
}

// Entries appends where the cache entries of a conversation end that are alive
// for certain.
func Entries(ends []int, l *sessioncache.Lineage, ttl time.Duration, now time.Time) []int {
	if l == nil {
		return ends
	}
	if l.TTL != 0 {
		ttl = l.TTL
	}
	for _, e := range l.Ends {
		if now.Sub(e.At) < ttl-Margin(ttl) {
			ends = append(ends, e.Blocks)
		}
	}
	return ends
}

// Lapsed reports whether the entry in front of the first message block is not alive
// for certain. Reading a longer prefix does not prolong its life; a request that comes
// after its end writes it again.
func Lapsed(l *sessioncache.Lineage, ttl time.Duration, now time.Time) bool {
	if l == nil {
		return false
	}
	if l.TTL != 0 {
		ttl = l.TTL
	}
	at, known := l.Ends.Marked(0)
	return known && now.Sub(at) >= ttl-Margin(ttl)
}

// Expired reports whether the cached prefix of a lineage has outlived its
// lifetime for certain.
func Expired(v *wire.View, rules *cachemodel.Rules, l *sessioncache.Lineage, now time.Time) bool {
	ttl := l.TTL
	if ttl == 0 {
		ttl = rules.Lifetime(history.LongMarker(v))
	}
	return ttl > 0 && !l.Started.IsZero() && now.Sub(l.LastUse()) > ttl+Margin(ttl)
}

// Margin is how much longer than the lifetime a pause must be to count as
// certain: clocks differ, and the request takes time to arrive.
func Margin(ttl time.Duration) time.Duration { return min(ttl/10, time.Minute) }
