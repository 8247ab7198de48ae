// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package queue

// slot is one of the places in which the box computes, each with the prefix of
// the request that ran there last.
type slot struct {
	busy    bool
	used    uint64 // when it was last given out, 0 if never
	lineage string // whose prefix it holds
	side    bool   // of a side request
	lost    bool   // the box was gone since it was given out
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
// else the one whose prefix is missed least. There must be a free one.
func (s *slots) take(t Ticket) int {
	best := s.best(t.Lineage)
	s.clock++
	s.busy++
	s.list[best] = slot{busy: true, used: s.clock, lineage: t.Lineage, side: t.Side}
	return best
}

// best is the free slot that take would give out.
func (s *slots) best(lineage string) int {
	best := -1
	for i := range s.list[:s.limit] {
		c := &s.list[i]
		if c.busy {
			continue
		}
		if c.used > 0 && c.lineage == lineage {
			return i
		}
		if best < 0 || c.dispensable(&s.list[best]) {
			best = i
		}
	}
	return best
}

// dispensable reports whether a slot's prefix is missed less than another's: a
// side request's before a conversation's, then the one unused for longest; an
// empty one before all.
func (c *slot) dispensable(o *slot) bool {
	if empty := c.used == 0; empty != (o.used == 0) {
		return empty
	}
	if c.side != o.side {
		return c.side
	}
	return c.used < o.used
}
