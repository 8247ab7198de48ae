// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"math/bits"
	"time"
)

const (
	// staleAfter is the half-life of a prefix's worth: an agent at work sends its next request
	// within seconds, an agent with a thinking user within minutes.
	staleAfter = 5 * time.Minute
	// maxHits bounds the counted hits, so that the prefix of an ended conversation is evicted in
	// time.
	maxHits = 3
)

// slot is one of the server's slots, with the prefix of the request that ran there last.
type slot struct {
	busy         bool
	used         uint64 // sequence number of the last use, 0 if never
	conversation string // conversation of the prefix
	size         int    // length of the prefix, in bytes
	hits         int    // number of cache hits
	side         bool   // prefix of a side request
	lost         bool   // the server was gone during the current use
	at           time.Time
}

// slots are the slots of one server. The queue's lock guards them.
type slots struct {
	list  []slot
	limit int // the first limit slots may be used
	busy  int
	clock uint64
}

// resize changes the number of slots.
func (s *slots) resize(n int) {
	for len(s.list) < n {
		s.list = append(s.list, slot{})
	}
	// A busy slot beyond the new number stays busy, and counts, until its release.
	s.limit = n
}

func (s *slots) free() int { return max(0, s.limit-s.busy) }

func (s *slots) give(i int) {
	if s.list[i].busy = false; s.list[i].lost {
		s.list[i] = slot{}
	}
	s.busy--
}

// take acquires the free slot that has the conversation's prefix, else the one with the prefix
// that costs least to read again. There must be a free slot.
func (s *slots) take(t Ticket) int {
	best, hits := s.best(t.Conversation), 0
	if c := &s.list[best]; c.used > 0 && c.conversation == t.Conversation {
		hits = min(c.hits+1, maxHits)
	}
	s.clock++
	s.busy++
	s.list[best] = slot{
		busy: true, used: s.clock, conversation: t.Conversation, size: t.Size, hits: hits, side: t.Side,
		at: time.Now(),
	}
	return best
}

// best returns the slot for take.
func (s *slots) best(conversation string) int {
	best, now := -1, time.Now()
	for i := range s.list[:s.limit] {
		c := &s.list[i]
		if c.busy {
			continue
		}
		if c.used > 0 && c.conversation == conversation {
			return i
		}
		if best < 0 || c.dispensable(&s.list[best], now) {
			best = i
		}
	}
	return best
}

// dispensable reports whether a slot's prefix costs less to read again than another's: empty slots
// come first, then side requests, then prefixes of less worth.
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
	// With more agents than slots, evict the most recently used prefix: with the oldest evicted, no
	// agent would ever find its prefix.
	return c.used > o.used
}

// worth returns the logarithm of a prefix's size, plus its hits, minus its age.
func (c *slot) worth(now time.Time) int {
	// Prefixes of similar length have the same worth, so that hits decide between them: among
	// agents that take turns, each prefix is the longest at some time.
	return bits.Len(uint(c.size)) + c.hits - int(now.Sub(c.at)/staleAfter)
}
