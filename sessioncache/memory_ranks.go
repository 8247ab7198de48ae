// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import "github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"

// rank is how soon a session goes where there is no more room: names of tenants and of
// conversations are the clients' to choose, and answers are not.
type rank uint8

const (
	unanswered   rank = iota // goes first
	answeredOnce             // no conversation has gone on
	goesOn
	numRanks
)

// ranks are the sessions that are held, by rank and by number.
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

// use makes a session the one of its rank that was used last.
func (r *ranks) use(s *Session, bytes int64, is rank) {
	if s.rank != is {
		r[s.rank].Drop(s.entry)
		r.put(s, bytes, is)
		return
	}
	r[is].Use(s.entry)
	r[is].Resize(s.entry, bytes)
}

// spare is the session that goes next, nil if all are in use.
func (r *ranks) spare(maxBytes int64) *Session {
	for is, c := range r {
		if rank(is) == answeredOnce && c.Bytes() <= maxBytes/8 { // every conversation begins like this
			continue
		}
		if s := spareOf(c); s != nil {
			return s
		}
	}
	return spareOf(r[answeredOnce])
}

// spareOf is the session that goes next of one rank: of the tenant that holds most, the
// one not used for longest. So a tenant, however many sessions it makes, pushes out its
// own once it holds as much as any other.
func spareOf(c *lru.Cache[uint64, Tenant, *Session]) *Session {
	heaviest, ok := c.Heaviest()
	if !ok {
		return nil
	}
	s, most := idle(c, heaviest), int64(0)
	if s != nil {
		return s
	}
	for t := range c.Owners() {
		if bytes := c.BytesOf(t); bytes > most {
			if x := idle(c, t); x != nil {
				s, most = x, bytes
			}
		}
	}
	return s
}

// idle is the session of a tenant not used for longest of those that nobody uses,
// nil if all are in use.
func idle(c *lru.Cache[uint64, Tenant, *Session], t Tenant) *Session {
	for e := range c.OldestOf(t) {
		if e.Value.pins == 0 {
			return e.Value
		}
	}
	return nil
}
