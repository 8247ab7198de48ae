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
	// mostNames bounds the people, clients and models that are told apart in a day:
	// clients choose the names of the latter two. The rest is counted as Others.
	mostNames = 500
	// mostSessions bounds the sessions of which is known whose they are.
	mostSessions = 4096
	hours        = 24
)

// Others is the name of what is not told apart.
const Others = "(others)"

// Tally counts the turns of today, which begins at midnight by the clock of this machine.
// Its methods may be called concurrently.
type Tally struct {
	now func() time.Time

	mu       sync.Mutex
	began    time.Time // of the counting
	seeded   bool      // what was on record before it began is counted, too
	day      time.Time
	ends     time.Time // the day
	total    audit.Sum
	people   map[string]*audit.Sum
	clients  map[string]*audit.Sum
	models   map[string]*audit.Sum
	hours    [hours]Hour // by the hour of the epoch, modulo their number
	sessions map[string]Whose
}

// Hour is what the turns of an hour cost, and what they would have.
type Hour struct {
	// At is its beginning.
	At time.Time `json:"at"`
	// Sum is what they came to.
	Sum audit.Sum `json:"sum"`
}

// Whose says who a session is of, and by what program.
type Whose struct {
	// User is the person's name, and Client that of the program.
	User   string `json:"user"`
	Client string `json:"client"`
	// Estimated reports that the upstream does not say what it reads from its cache, so
	// that this is our estimate.
	Estimated bool `json:"estimated,omitempty"`
}

// NewTally returns an empty tally that begins now.
func NewTally(now func() time.Time) *Tally {
	t := &Tally{now: now, began: now(), sessions: map[string]Whose{}}
	t.turnOver()
	return t
}

// turnOver begins a new day if it is time. The tally is locked.
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

// Add counts a record. It does not keep it.
func (t *Tally) Add(r *audit.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.Session != "" {
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
		most /= 2 // strangers leave room for those who are answered
	}
	of(t.people, r.User, most).Add(r)
	of(t.clients, r.Client, most).Add(r)
	of(t.models, r.ModelName(), most).Add(r)
	if r.User == r.Tenant {
		return
	}
	if before := t.people[r.Tenant]; before != nil { // who had no name yet
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

// Seed counts what was on record before the tally began.
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

// Today is what a tally has counted.
type Today struct {
	// Since is the moment from which everything is counted: midnight, or the start
	// of the process where nothing was on record before.
	Since time.Time `json:"since"`
	// Zone is the time zone whose midnight it is.
	Zone string `json:"zone"`
	// Total is the sum of all turns.
	Total audit.Sum `json:"total"`
	// Hours are the last 24 hours, the oldest first, those without turns left out.
	Hours []Hour `json:"hours"`
	// People, Clients and Models are the sums of each, the largest saving first.
	People  []audit.Sum `json:"people"`
	Clients []audit.Sum `json:"clients"`
	Models  []audit.Sum `json:"models"`
}

// Today returns what was counted today.
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

// Whose tells whose a session is, if it has had a request lately.
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
