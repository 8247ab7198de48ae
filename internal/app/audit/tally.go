// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/holdout"
)

const (
	// maxSessions bounds the sessions with a known user.
	maxSessions = 4096
	// maxTurns bounds the turns that are kept in memory.
	maxTurns = 1024
	// maxTexts bounds the texts of these turns that are stored once.
	maxTexts = 4096
	hours    = 24
)

// Tally counts the turns of today, which begins at midnight in the local time zone. Its methods are
// safe for concurrent use.
type Tally struct {
	now func() time.Time

	mu       sync.Mutex
	began    time.Time // the start of counting
	seeded   bool      // turns on record before began are counted, too
	day      time.Time
	ends     time.Time // the end of the day
	today    *collector
	hours    [hours]hour // by the hour of the epoch, modulo their number
	sessions map[string]Identity
	turns    []Turn            // a ring of the last ones
	next     int               // in turns
	names    map[string]string // texts of turns
}

type hour struct {
	at  time.Time
	sum Sum
}

// Identity names the user and the program of a session.
type Identity struct {
	// User is the name of the user, and Client that of the program.
	User   string `json:"user"`
	Client string `json:"client"`
	// Estimated reports that cache reads are our estimate, because the upstream does not report them.
	Estimated bool `json:"estimated,omitempty"`
	// Fallback is the reason why the fallback served the last turn, "" if the first upstream did.
	Fallback string `json:"fallback,omitempty"`
	// Internal and InternalUSD are the costs of the session's pings and other internal requests of
	// the last day, in uncached input tokens and in US dollars.
	Internal    float64 `json:"-"`
	InternalUSD float64 `json:"-"`
}

// NewTally returns an empty tally that begins now.
func NewTally(now func() time.Time) *Tally {
	t := &Tally{now: now, began: now(), sessions: map[string]Identity{}, names: map[string]string{}}
	t.turnOver()
	return t
}

// turnOver begins a new day if the old one has ended. The tally must be locked.
func (t *Tally) turnOver() {
	now := t.now()
	if !now.Before(t.day) && now.Before(t.ends) {
		return
	}
	y, m, d := now.Date()
	day := time.Date(y, m, d, 0, 0, 0, 0, now.Location())
	if day.Equal(t.day) {
		return
	}
	t.day, t.ends, t.today = day, time.Date(y, m, d+1, 0, 0, 0, 0, now.Location()), newCollector()
}

// Add counts a record. It does not retain it.
func (t *Tally) Add(r *Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turnOver()
	if r.Session != "" {
		t.identify(r)
	}
	if h := r.At.Truncate(time.Hour); t.now().Sub(h) < hours*time.Hour {
		// The hours are a ring: an hour overwrites that of the day before.
		at := &t.hours[h.Unix()/3600%hours]
		if !at.at.Equal(h) {
			*at = hour{at: h}
		}
		at.sum.Add(r)
	}
	t.remember(r)
	if !r.At.Before(t.day) {
		t.today.add(r, t.day.Location())
	}
}

func (t *Tally) identify(r *Record) {
	before, known := t.sessions[r.Session]
	// A full map is dropped: it is rebuilt from the next turns.
	if !known && len(t.sessions) >= maxSessions {
		clear(t.sessions)
	}
	who := Identity{r.User, r.Client, r.ReadEstimated > 0, r.Fallback, before.Internal, before.InternalUSD}
	if !r.IsTurn() {
		if known {
			who.User, who.Client, who.Estimated = before.User, before.Client, before.Estimated
		}
		if r.Kind != KindExpand { // continuations are part of their turns
			who.Internal, who.InternalUSD = who.Internal+r.Cost, who.InternalUSD+r.USD
		}
	}
	t.sessions[r.Session] = who
}

// remember keeps a turn in the ring.
func (t *Tally) remember(r *Record) {
	if r.Turns > 1 {
		return
	}
	if len(t.turns) < maxTurns {
		t.turns = append(t.turns, Turn{})
	}
	t.turns[t.next] = r.turn(t.own)
	t.next = (t.next + 1) % maxTurns
}

// own returns a copy of a text, the same one for equal texts.
func (t *Tally) own(s string) string {
	if own, ok := t.names[s]; ok {
		return own
	}
	if len(t.names) >= maxTexts {
		clear(t.names)
	}
	s = strings.Clone(Bounded(s)) // the text may be a part of a long request
	t.names[s] = s
	return s
}

// Seed counts the turns on record before the tally began.
func (t *Tally) Seed(ctx context.Context, from Source) error {
	t.mu.Lock()
	since := t.day
	// The chart of hours goes back beyond midnight.
	if back := t.began.Add(-hours * time.Hour); back.Before(since) {
		since = back
	}
	t.mu.Unlock()
	err := from.Each(ctx, since, func(r *Record) error {
		// The process has counted the later ones itself.
		if r.At.Before(t.began) {
			t.Add(r)
		}
		return nil
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seeded = err == nil
	return err
}

// Today returns the sums of today. Their trend has the last 24 hours.
func (t *Tally) Today() Period {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turnOver()
	now := t.now()
	p := t.today.period(t.day, now)
	if !t.seeded && t.began.After(t.day) {
		p.Since = t.began
	}
	p.Until = time.Time{}
	p.Trend = p.Trend[:0]
	for at := now.Truncate(time.Hour).Add(-(hours - 1) * time.Hour); !at.After(now); at = at.Add(time.Hour) {
		h, sum := &t.hours[at.Unix()/3600%hours], new(Sum)
		if h.at.Equal(at) {
			sum = &h.sum
		}
		p.Trend = append(p.Trend, step(at.In(now.Location()), "15:04", sum))
	}
	return p
}

// Identity returns the user of a session that has had a request lately.
func (t *Tally) Identity(session string) Identity {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sessions[session]
}

// Holdout compares today's sessions with those of the control group, nil without one.
func (t *Tally) Holdout() *holdout.Comparison {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turnOver()
	return t.today.compared.compare()
}

// Recent returns the turns in memory that a filter selects, the latest first.
func (t *Tally) Recent(f Filter) []Turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := []Turn{}
	for i := range t.turns {
		turn := &t.turns[(t.next-1-i+2*len(t.turns))%len(t.turns)]
		if f.selects(turn) {
			out = append(out, *turn)
		}
	}
	slices.SortStableFunc(out, func(a, b Turn) int { return b.At.Compare(a.At) })
	return out[:min(len(out), f.Limit)]
}
