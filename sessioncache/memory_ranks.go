// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import "github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"

// rank orders sessions for eviction. Clients choose the names of tenants and conversations, but
// they cannot choose answers, so an answered session ranks higher.
type rank uint8

const (
	unanswered   rank = iota // evicted first
	answeredOnce             // no conversation has continued
	goesOn
	numRanks
)

// ranks are the stored sessions, by rank and by number.
type ranks [numRanks]*lru.Cache[uint64, Tenant, *Session]

func newRanks() (r ranks) {
	for i := range r {
		r[i] = lru.New(lru.Options[uint64, Tenant, *Session]{})
	}
	return r
}

func (r *ranks) bytes() (sum int64) {
	for _, c := range r {
		sum += c.Bytes()
	}
	return sum
}

func (r *ranks) len() (sum int) {
	for _, c := range r {
		sum += c.Len()
	}
	return sum
}

func (r *ranks) put(s *Session, bytes int64, is rank) {
	s.rank, s.entry = is, r[is].Put(s.Number(), s.tenant, s, bytes)
}

// use makes a session the most recently used one of its rank.
func (r *ranks) use(s *Session, bytes int64, is rank) {
	if s.rank != is {
		r[s.rank].Drop(s.entry)
		r.put(s, bytes, is)
		return
	}
	r[is].Use(s.entry)
	r[is].Resize(s.entry, bytes)
}

// spare returns the session to evict next, nil if all are in use.
func (r *ranks) spare(maxBytes int64) *Session {
	for is, c := range r {
		if rank(is) == answeredOnce && c.Bytes() <= maxBytes/8 { // every conversation begins in this rank
			continue
		}
		if s := spareOf(c); s != nil {
			return s
		}
	}
	return spareOf(r[answeredOnce])
}

// spareOf returns the session of one rank to evict next, nil if all are in use.
func spareOf(c *lru.Cache[uint64, Tenant, *Session]) *Session {
	// The tenant with the most memory pays: many sessions of one tenant push out its own.
	heaviest, ok := c.Heaviest()
	if !ok {
		return nil
	}
	s, most := idle(c, heaviest), int64(0)
	if s != nil {
		return s
	}
	// All sessions of the heaviest tenant are in use; the next heaviest one pays.
	for t := range c.Owners() {
		if bytes := c.BytesOf(t); bytes > most {
			if x := idle(c, t); x != nil {
				s, most = x, bytes
			}
		}
	}
	return s
}

// idle returns the least recently used unpinned session of a tenant, nil if all are in use.
func idle(c *lru.Cache[uint64, Tenant, *Session], t Tenant) *Session {
	for e := range c.OldestOf(t) {
		if e.Value.pins == 0 {
			return e.Value
		}
	}
	return nil
}
