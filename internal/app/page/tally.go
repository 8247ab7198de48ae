// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
)

const (
	// mostNames bounds the users, clients and models of a day that are told apart: clients choose
	// the names of the latter two. Others counts the rest.
	mostNames = 500
	// mostSessions bounds the sessions with a known user.
	mostSessions = 4096
	hours        = 24
)

// Others is the name of the remainder.
const Others = "(others)"

// Tally counts the turns of today, which begins at midnight in the local time zone. Its methods are
// safe for concurrent use.
type Tally struct {
	now func() time.Time

	mu       sync.Mutex
	began    time.Time // the start of counting
	seeded   bool      // turns on record before began are counted, too
	day      time.Time
	ends     time.Time // the end of the day
	total    audit.Sum
	people   map[string]*audit.Sum
	clients  map[string]*audit.Sum
	models   map[string]*audit.Sum
	hours    [hours]Hour // by the hour of the epoch, modulo their number
	sessions map[string]Whose
}

// Hour is the actual cost of an hour's turns and the cost without edits.
type Hour struct {
	// At is the beginning of the hour.
	At time.Time `json:"at"`
	// Sum is the sum of its turns.
	Sum audit.Sum `json:"sum"`
}

// Whose names the user and the program of a session.
type Whose struct {
	// User is the name of the user, and Client that of the program.
	User   string `json:"user"`
	Client string `json:"client"`
	// Estimated reports that cache reads are our estimate, because the upstream does not report
	// them.
	Estimated bool `json:"estimated,omitempty"`
}

// NewTally returns an empty tally that begins now.
func NewTally(now func() time.Time) *Tally {
	t := &Tally{now: now, began: now(), sessions: map[string]Whose{}}
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
	t.day, t.ends, t.total = day, time.Date(y, m, d+1, 0, 0, 0, 0, now.Location()), audit.Sum{}
	t.people, t.clients, t.models = map[string]*audit.Sum{}, map[string]*audit.Sum{}, map[string]*audit.Sum{}
}

// Add counts a record. It does not retain it.
func (t *Tally) Add(r *audit.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.Session != "" {
		// A full map is dropped: it is rebuilt from the next turns.
		if len(t.sessions) >= mostSessions {
			clear(t.sessions)
		}
		t.sessions[r.Session] = Whose{r.User, r.Client, r.ReadEstimated > 0}
	}
	t.count(r)
}

func (t *Tally) count(r *audit.Record) {
	t.turnOver()
	if h := r.At.Truncate(time.Hour); t.now().Sub(h) < hours*time.Hour {
		at := &t.hours[h.Unix()/3600%hours]
		if !at.At.Equal(h) {
			*at = Hour{At: h}
		}
		at.Sum.Add(r)
	}
	if r.At.Before(t.day) {
		return
	}
	t.total.Add(r)
	most := mostNames
	if !r.Spent() {
		most /= 2 // requests without usage leave room for real users
	}
	of(t.people, r.User, most).Add(r)
	of(t.clients, r.Client, most).Add(r)
	of(t.models, r.ModelName(), most).Add(r)
	if r.User == r.Tenant {
		return
	}
	if before := t.people[r.Tenant]; before != nil { // the tenant's turns from before it had a user name
		of(t.people, r.User, most).Join(before)
		delete(t.people, r.Tenant)
	}
}

func of(sums map[string]*audit.Sum, name string, most int) *audit.Sum {
	s := sums[name]
	if s != nil {
		return s
	}
	if len(sums) >= most {
		if name = Others; sums[name] != nil {
			return sums[name]
		}
	}
	s = &audit.Sum{Name: name}
	sums[name] = s
	return s
}

// Seed counts the turns on record before the tally began.
func (t *Tally) Seed(ctx context.Context, from audit.Source) error {
	t.mu.Lock()
	since := t.day
	if back := t.began.Add(-hours * time.Hour); back.Before(since) {
		since = back
	}
	t.mu.Unlock()
	err := from.Each(ctx, since, func(r *audit.Record) error {
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

// Today is the content of a tally.
type Today struct {
	// Since is the start of the counted time: midnight, or the start of the process if nothing was
	// on record before.
	Since time.Time `json:"since"`
	// Zone is the time zone of that midnight.
	Zone string `json:"zone"`
	// Total is the sum of all turns.
	Total audit.Sum `json:"total"`
	// Hours are the last 24 hours, the oldest first. Hours without turns are left out.
	Hours []Hour `json:"hours"`
	// People, Clients and Models are the sums by user, client and model, the largest saving first.
	People  []audit.Sum `json:"people"`
	Clients []audit.Sum `json:"clients"`
	Models  []audit.Sum `json:"models"`
}

// Today returns the sums of today.
func (t *Tally) Today() Today {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turnOver()
	d := Today{
		Since: t.day, Total: t.total, Hours: []Hour{},
		People: sorted(t.people), Clients: sorted(t.clients), Models: sorted(t.models),
	}
	d.Zone, _ = t.day.Zone()
	if !t.seeded && t.began.After(t.day) {
		d.Since = t.began
	}
	now := t.now()
	for _, h := range t.hours {
		if !h.At.IsZero() && now.Sub(h.At) < hours*time.Hour {
			d.Hours = append(d.Hours, h)
		}
	}
	slices.SortFunc(d.Hours, func(a, b Hour) int { return a.At.Compare(b.At) })
	return d
}

// Whose returns the user of a session that has had a request lately.
func (t *Tally) Whose(session string) Whose {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sessions[session]
}

func sorted(sums map[string]*audit.Sum) []audit.Sum {
	all := make([]audit.Sum, 0, len(sums))
	for _, s := range sums {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b audit.Sum) int {
		aDollars, aUnits := a.Worth()
		bDollars, bUnits := b.Worth()
		return cmp.Or(cmp.Compare(bDollars, aDollars), cmp.Compare(bUnits, aUnits), cmp.Compare(a.Name, b.Name))
	})
	return all
}
