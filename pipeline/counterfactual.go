// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// bill returns the usage that the client's own bytes would have had in place of u, and stores their
// simulated cache entries.
func (s *simulation) bill(u wire.Usage) wire.Usage {
	// Token counts are the reported ones plus the estimate of the removed tokens.
	s.total = u.Prompt() + s.request.Removed
	if len(s.points) == 0 {
		return wire.Usage{Uncached: s.total, Output: u.Output, Reported: true}
	}
	var out wire.Usage
	switch s.request.Rules.Regime {
	case pricing.Markers, pricing.Breakpoints:
		out = s.billMarkers(u)
	default:
		out = s.billPrefix()
	}
	out.Output, out.Reported = u.Output, true
	return out
}

// found is a prefix in the cache.
type found struct {
	positions int
	tokens    int64
}

// tokens is the length of the first n positions. Between the found prefix and the end, it is in
// proportion to the estimates.
func (s *simulation) tokens(n int, f found) int64 {
	end := len(s.points)
	if n >= end {
		return s.total
	}
	size := func(n int) float64 {
		if n == 0 {
			return 0
		}
		return s.points[n-1].size
	}
	from, to := size(f.positions), size(end)
	rest := s.total - f.tokens
	if n < f.positions || rest <= 0 || to <= from {
		f = found{}
		from, rest = 0, s.total
	}
	return f.tokens + int64(float64(rest)*(size(n)-from)/(to-from))
}

// billMarkers reads and writes at breakpoints, as the simulator of package pricing does.
func (s *simulation) billMarkers(u wire.Usage) wire.Usage {
	r := s.request.Rules
	f := s.lookBack()
	// The client's own bytes would have read the same prefix before the first edit, as long as no
	// added marker played a part.
	if s.request.Markers == 0 && u.Read > f.tokens && !s.request.Diverged && u.Read <= s.tokens(s.edited, f) {
		f.tokens = u.Read
	}
	long, last := f.tokens, f.tokens
	for _, m := range s.marks {
		end := s.tokens(m.at+1, f)
		if end < int64(r.MinTokens) {
			continue
		}
		if m.at+1 > f.positions && end > last {
			last = end
			if m.long {
				long = end
			}
		}
		if !s.has(m.at) { // an existing entry is not written again
			s.put(m.at, end, r.Lifetime(m.long))
		}
	}
	return wire.Usage{Read: f.tokens, Write1h: long - f.tokens, Write5m: last - long, Uncached: max(s.total-last, 0)}
}

// lookBack finds the longest entry that a breakpoint of the request reaches.
func (s *simulation) lookBack() (f found) {
	r, at := s.request.Rules, s.request.Start
	entries := s.request.Cache.Entries()
	best := -1
	for i := range entries {
		e := &entries[i]
		n := s.position(e)
		if n <= f.positions || !e.Live(at) || !s.reached(n, r) {
			continue
		}
		f, best = found{n, min(e.Tokens, s.total)}, i
	}
	if best >= 0 {
		entries[best].At = at // found, and so refreshed
	}
	return f
}

// position returns the number of positions of an entry that is a prefix of the request, 0
// otherwise.
func (s *simulation) position(e *sessioncache.CounterfactualEntry) int {
	// Points of removed blocks are missing, so the position can be smaller than the entry's number
	// of blocks.
	for n := min(e.Blocks, len(s.points)); n > 0; n-- {
		p := &s.points[n-1]
		if p.blocks == e.Blocks {
			if p.prefix == e.Prefix {
				return n
			}
			return 0
		}
		if p.blocks < e.Blocks {
			return 0
		}
	}
	return 0
}

// reached reports whether a breakpoint finds an entry of n positions.
func (s *simulation) reached(n int, r *pricing.Rules) bool {
	for _, m := range s.marks {
		if m.at+1 < n {
			continue
		}
		if r.LookBack == 0 || r.Regime == pricing.Breakpoints {
			return true
		}
		seen := 1
		for i := m.at - 1; i >= n-1 && seen <= r.LookBack; i-- {
			a, b := s.points[i].kind, s.points[i+1].kind
			if !r.CollapseRuns || a != b || !a.Collapses() {
				seen++
			}
		}
		if seen <= r.LookBack {
			return true
		}
	}
	return false
}

// granularity is the step in which automatic caches report reads, in tokens.
const granularity = 128

// billPrefix reads the longest known prefix: the one shared with the previous request, or else with
// another one of the session.
func (s *simulation) billPrefix() wire.Usage {
	r, last, end := s.request.Rules, &s.request.Previous, len(s.points)
	var f found
	entries := s.request.Cache.Entries()
	for i := range entries {
		e := &entries[i]
		if n := s.position(e); n > f.positions && e.Live(s.request.Start) {
			f = found{n, min(e.Tokens, s.total)}
		}
	}
	if last.Common > 0 && s.front < end {
		// The cache knows every prefix of the last request if tools and system prompt are the same.
		front := s.points[s.front].prefix
		if last.Front == front && (r.TTL == 0 || last.Ago < r.TTL) {
			n := s.front
			for n < end && s.points[n].blocks <= s.request.View.System+last.Common {
				n++
			}
			if n > f.positions {
				f = found{n, s.tokens(n, f)}
			}
		}
	}
	read := f.tokens
	if read < int64(r.MinTokens) {
		read = 0
	}
	if r.Regime == pricing.KV {
		// A local server always computes the last token.
		read = min(read, max(s.total-1, 0))
	} else {
		read = read / granularity * granularity
	}
	ttl := r.Lifetime(false)
	if s.front > 0 {
		s.put(s.front-1, s.tokens(s.front, f), ttl)
	}
	s.put(end-1, s.total, ttl)
	return wire.Usage{Read: read, Uncached: s.total - read}
}

// has reports whether a live entry ends at a position.
func (s *simulation) has(at int) bool {
	p := &s.points[at]
	entries := s.request.Cache.Entries()
	for i := range entries {
		e := &entries[i]
		if e.Prefix == p.prefix && e.Blocks == p.blocks {
			return e.Live(s.request.Start)
		}
	}
	return false
}

func (s *simulation) put(at int, tokens int64, ttl time.Duration) {
	p := &s.points[at]
	s.request.Cache.Put(sessioncache.CounterfactualEntry{Prefix: p.prefix, Blocks: p.blocks, Tokens: tokens, At: s.request.Start, TTL: ttl})
}
