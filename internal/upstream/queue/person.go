// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"slices"
	"time"
)

// person is somebody who shares the box.
type person struct {
	name    string
	running int
	ended   time.Time // when the last of their requests left its slot
	turns   []*Turn   // waiting, in the order they came
}

func (p *person) idle() bool { return p.running == 0 && len(p.turns) == 0 }

func (p *person) add(t *Turn) { p.turns = append(p.turns, t) }

func (p *person) remove(t *Turn) {
	if i := slices.Index(p.turns, t); i >= 0 {
		p.turns = slices.Delete(p.turns, i, i+1)
	}
}

// last is the turn that the person can do without: the side request that came last,
// or else the request that did. There must be one.
func (p *person) last() *Turn {
	for i := len(p.turns) - 1; i >= 0; i-- {
		if p.turns[i].ticket.Side {
			return p.turns[i]
		}
	}
	return p.turns[len(p.turns)-1]
}

// fuller reports whether the person has more turns waiting than another, or as many
// and the one that came last.
func (p *person) fuller(o *person) bool {
	if len(p.turns) != len(o.turns) {
		return len(p.turns) > len(o.turns)
	}
	return p.turns[len(p.turns)-1].number > o.turns[len(o.turns)-1].number
}

// first is the person's next turn: conversations first.
func (p *person) first(now time.Time) *Turn {
	for _, t := range p.turns {
		if !t.side(now) {
			return t
		}
	}
	if len(p.turns) > 0 {
		return p.turns[0]
	}
	return nil
}

// side reports whether a turn stands back behind conversations.
func (t *Turn) side(now time.Time) bool {
	return t.ticket.Side && now.Sub(t.came) < sideAge
}

// since is when a turn counts as having come: as if its person sent one request
// after the other, not before the last one has ended. Who has one agent waits for
// one request of each of the others then, and no longer, however many they have
// sent and however long theirs take.
func (t *Turn) since() time.Time {
	if t.person.ended.After(t.came) {
		return t.person.ended
	}
	return t.came
}

// before reports whether a turn goes first: conversations do, then the people of
// whom fewest requests run, then who came first.
func (t *Turn) before(o *Turn, now time.Time) bool {
	if a, b := t.side(now), o.side(now); a != b {
		return b
	}
	if a, b := t.person.running, o.person.running; a != b {
		return a < b
	}
	if a, b := t.since(), o.since(); !a.Equal(b) {
		return a.Before(b)
	}
	return t.number < o.number
}
