// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"math/bits"
	"time"
)

const (
	// staleAfter is the time in which a prefix loses half of its worth: the next request of an agent
	// at work comes within seconds, and of one whose person thinks within minutes.
	staleAfter = 5 * time.Minute
	// maxHits bounds how many hits count, so that a conversation that has ended gives way in time.
	maxHits = 3
)

// slot is one of the places in which the box computes, each with the prefix of
// the request that ran there last.
type slot struct {
	busy    bool
	used    uint64 // when it was last given out, 0 if never
	lineage string // the conversation whose prefix it holds
	size    int    // of that prefix, in bytes
	hits    int    // how often it was found
	side    bool   // of a side request
	lost    bool   // the box was gone since it was given out
	at      time.Time
}

// slots are those of one box. The queue's lock guards them.
type slots struct {
	list  []slot
	limit int // how many of list may be busy
	busy  int
	clock uint64
}

// resize changes their number. A busy one behind the new end stays busy until
// it is given back, and counts.
func (s *slots) resize(n int) {
	for len(s.list) < n {
		s.list = append(s.list, slot{})
	}
	s.limit = n
}

func (s *slots) free() int { return max(0, s.limit-s.busy) }

func (s *slots) give(i int) {
	if s.list[i].busy = false; s.list[i].lost {
		s.list[i] = slot{}
	}
	s.busy--
}

// take gives out a free slot: the one that holds the conversation's prefix,
// else the one whose prefix costs least to read again. There must be a free one.
func (s *slots) take(t Ticket) int {
	best, hits := s.best(t.Lineage), 0
	if c := &s.list[best]; c.used > 0 && c.lineage == t.Lineage {
		hits = min(c.hits+1, maxHits)
	}
	s.clock++
	s.busy++
	s.list[best] = slot{busy: true, used: s.clock, lineage: t.Lineage, size: t.Size, hits: hits, side: t.Side, at: time.Now()}
	return best
}

// best is the free slot that take would give out.
func (s *slots) best(lineage string) int {
	best, now := -1, time.Now()
	for i := range s.list[:s.limit] {
		c := &s.list[i]
		if c.busy {
			continue
		}
		if c.used > 0 && c.lineage == lineage {
			return i
		}
		if best < 0 || c.dispensable(&s.list[best], now) {
			best = i
		}
	}
	return best
}

// dispensable reports whether a slot's prefix costs less to read again than another's: an empty one
// before all, a side request's before a conversation's, then the one of less worth.
func (c *slot) dispensable(o *slot, now time.Time) bool {
	if empty := c.used == 0; empty != (o.used == 0) {
		return empty
	}
	if c.side != o.side {
		return c.side
	}
	if a, b := c.worth(now), o.worth(now); a != b {
		return a < b
	}
	// Where more agents take turns than there are slots, the one unused for longest comes next:
	// if it went, none would ever find its prefix.
	return c.used > o.used
}

// worth is the logarithm of what a prefix costs to read again, more for each time that it was found,
// less for the time that it was not asked for. Prefixes of about one length are worth the same, for
// hits to decide which of them stay: as agents take turns, each is the longest once.
func (c *slot) worth(now time.Time) int {
	return bits.Len(uint(c.size)) + c.hits - int(now.Sub(c.at)/staleAfter)
}
