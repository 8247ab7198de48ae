// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"slices"
	"time"
)

// user is a user of the server.
type user struct {
	name    string
	running int
	ended   time.Time // when the user's last request left its slot
	turns   []*Place  // waiting, in order of arrival
}

func (p *user) idle() bool { return p.running == 0 && len(p.turns) == 0 }

func (p *user) add(t *Place) { p.turns = append(p.turns, t) }

func (p *user) remove(t *Place) {
	if i := slices.Index(p.turns, t); i >= 0 {
		p.turns = slices.Delete(p.turns, i, i+1)
	}
}

// last returns the most dispensable waiting turn: the latest side request, or else the latest
// request. The user must have a waiting turn.
func (p *user) last() *Place {
	for i := len(p.turns) - 1; i >= 0; i-- {
		if p.turns[i].ticket.Side {
			return p.turns[i]
		}
	}
	return p.turns[len(p.turns)-1]
}

// fuller reports whether the user has more waiting turns than another, or equally many and the
// latest one.
func (p *user) fuller(o *user) bool {
	if len(p.turns) != len(o.turns) {
		return len(p.turns) > len(o.turns)
	}
	return p.turns[len(p.turns)-1].number > o.turns[len(o.turns)-1].number
}

// first returns the user's next turn: conversations before side requests.
func (p *user) first(now time.Time) *Place {
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

// side reports whether a turn yields to conversations.
func (t *Place) side(now time.Time) bool {
	return t.ticket.Side && now.Sub(t.came) < sideAge
}

// since returns the effective arrival of a turn.
func (t *Place) since() time.Time {
	// Count the turn as sent after the end of the user's last request. So a user with one agent
	// waits for at most one request of each other user, however many requests the others have sent
	// and however long these take.
	if t.user.ended.After(t.came) {
		return t.user.ended
	}
	return t.came
}

// before reports whether a turn runs before another: conversations first, then users with the
// fewest running requests, then the earliest arrival.
func (t *Place) before(o *Place, now time.Time) bool {
	if a, b := t.side(now), o.side(now); a != b {
		return b
	}
	if a, b := t.user.running, o.user.running; a != b {
		return a < b
	}
	if a, b := t.since(), o.since(); !a.Equal(b) {
		return a.Before(b)
	}
	return t.number < o.number
}
