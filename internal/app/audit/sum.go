// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/figure"
)

// Sum is the sum of turns.
type Sum struct {
	// Name is the group's name.
	Name string `json:"name"`
	// Turns counts the clients' requests. Failed and Interrupted count those with that outcome,
	// Unpriced those of models without a known price. Tokens and costs include internal requests:
	// continuations, pings, warm-ups.
	Turns       int64 `json:"turns"`
	Failed      int64 `json:"failed"`
	Interrupted int64 `json:"interrupted"`
	Unpriced    int64 `json:"unpriced"`
	// Assumed is the number of turns that were charged at another model's prices.
	Assumed int64 `json:"assumed,omitempty"`
	// Refused counts the requests that were refused for a spent budget or an unknown model. They
	// are no turns.
	Refused int64 `json:"refused"`
	// Estimated counts the turns with estimated tokens, in whole or in part.
	Estimated int64 `json:"estimated"`
	// Billed is the usage that upstreams reported, Client the usage that the clients' own bytes
	// would have had.
	Billed Tokens `json:"billed"`
	Client Tokens `json:"client"`
	// ReadEstimated is the part of Billed.Read that upstreams did not report.
	ReadEstimated int64 `json:"read_estimated"`
	// Removed is the tokens that edits took out of prompts, WouldRemove the tokens of edits that
	// were only computed, both estimated.
	Removed     int64 `json:"removed"`
	WouldRemove int64 `json:"would_remove"`
	// Folded is the number of folded blocks, and FoldMisses the number of misses of folded text.
	Folded     int64 `json:"folded"`
	FoldMisses int64 `json:"fold_misses"`
	// Cost and ClientCost are in units of one uncached input token of each model, USD and ClientUSD
	// in US dollars where prices are known.
	Cost       float64 `json:"cost"`
	ClientCost float64 `json:"client_cost"`
	USD        float64 `json:"usd"`
	ClientUSD  float64 `json:"client_usd"`
	// WouldSave and WouldSaveUSD are the net savings of edits that the policy observe only computed.
	WouldSave    float64 `json:"would_save"`
	WouldSaveUSD float64 `json:"would_save_usd"`
	// Translation and TranslationUSD are the savings of the cache markers that translations add. No
	// other saving includes them.
	Translation    float64 `json:"translation"`
	TranslationUSD float64 `json:"translation_usd"`
}

// Priced reports whether the sum has a price in dollars.
func (s *Sum) Priced() bool { return s.ClientUSD > 0 }

// Actual returns the cost of the turns: dollars, or units if no price is known.
func (s *Sum) Actual() float64 {
	if s.Priced() {
		return s.USD
	}
	return s.Cost
}

// Unedited returns the cost that the client's own bytes would have had, in the unit of Actual.
func (s *Sum) Unedited() float64 {
	if s.Priced() {
		return s.ClientUSD
	}
	return s.ClientCost
}

// Saved returns the net saving, in the unit of Actual.
func (s *Sum) Saved() float64 { return s.Unedited() - s.Actual() }

// Observed reports whether edits were only computed in some of the turns.
func (s *Sum) Observed() bool { return s.WouldSave != 0 }

// Would returns the net saving of edits that were only computed, in the unit of Actual.
func (s *Sum) Would() float64 {
	if s.Priced() {
		return s.WouldSaveUSD
	}
	return s.WouldSave
}

// WouldShare returns Would as a share of Own.
func (s *Sum) WouldShare() float64 { return share(s.Would(), s.Unedited()) }

// SavedShare returns the net saving as a share of Own.
func (s *Sum) SavedShare() float64 { return share(s.Saved(), s.Unedited()) }

// ReadShare returns the share of the prompts that was read from a cache.
func (s *Sum) ReadShare() float64 { return share(float64(s.Billed.Read), float64(s.Billed.Prompt())) }

// Read formats ReadShare, with a leading ~ if a part of it is an estimate.
func (s *Sum) Read() string {
	about := ""
	if s.ReadEstimated > 0 {
		about = "~"
	}
	return about + figure.Percent(s.ReadShare())
}

// ClientReadShare is ReadShare for the client's own bytes.
func (s *Sum) ClientReadShare() float64 {
	return share(float64(s.Client.Read), float64(s.Client.Prompt()))
}

// Worth returns the actual and possible savings, for sorting: in dollars where prices are known,
// and in units.
func (s *Sum) Worth() (dollars, units float64) {
	return s.ClientUSD - s.USD + s.WouldSaveUSD, s.ClientCost - s.Cost + s.WouldSave
}

func share(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return part / whole
}

// Add adds a record.
func (s *Sum) Add(r *Record) {
	if r.Outcome == Refused {
		s.Refused += r.Turns
		return
	}
	if r.IsTurn() {
		s.Turns += r.Turns
		switch r.Outcome {
		case Failed:
			s.Failed += r.Turns
		case Interrupted:
			s.Interrupted += r.Turns
		}
		if r.Unpriced() {
			s.Unpriced += r.Turns
		}
		if r.PricesOf != "" && r.USD > 0 {
			s.Assumed += r.Turns
		}
	}
	if removed := r.OriginalTokens - r.SentTokens; r.Policy == "observe" {
		s.WouldRemove += removed
	} else {
		s.Removed += removed
	}
	s.Folded, s.FoldMisses = s.Folded+r.Folded, s.FoldMisses+r.FoldMisses
	s.Billed.add(&r.Billed)
	s.ReadEstimated += r.ReadEstimated
	s.Estimated += r.Estimated
	s.Client.add(&r.ClientBilled)
	s.Cost += r.Cost
	s.ClientCost += r.ClientCost
	s.USD += r.USD
	s.ClientUSD += r.ClientUSD
	s.WouldSave += r.WouldSave
	s.WouldSaveUSD += r.WouldSaveUSD
	s.Translation += r.Translation
	s.TranslationUSD += r.TranslationUSD
}

// Join adds another sum.
func (s *Sum) Join(o *Sum) {
	s.Turns, s.Failed, s.Interrupted, s.Unpriced = s.Turns+o.Turns, s.Failed+o.Failed, s.Interrupted+o.Interrupted,
		s.Unpriced+o.Unpriced
	s.Assumed += o.Assumed
	s.Refused += o.Refused
	s.Removed, s.WouldRemove, s.ReadEstimated = s.Removed+o.Removed, s.WouldRemove+o.WouldRemove, s.ReadEstimated+
		o.ReadEstimated
	s.Estimated += o.Estimated
	s.Folded, s.FoldMisses = s.Folded+o.Folded, s.FoldMisses+o.FoldMisses
	s.Billed.add(&o.Billed)
	s.Client.add(&o.Client)
	s.Cost, s.ClientCost, s.USD, s.ClientUSD = s.Cost+o.Cost, s.ClientCost+o.ClientCost, s.USD+o.USD, s.ClientUSD+
		o.ClientUSD
	s.WouldSave, s.WouldSaveUSD = s.WouldSave+o.WouldSave, s.WouldSaveUSD+o.WouldSaveUSD
	s.Translation, s.TranslationUSD = s.Translation+o.Translation, s.TranslationUSD+o.TranslationUSD
}

const (
	// maxNames bounds the users, groups, projects, clients and models of a day that are told apart: clients
	// choose the names of the latter three. Others counts the rest.
	maxNames = 500
	// maxSessions bounds the sessions with a known user.
	maxSessions = 4096
	hours       = 24
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
	total    Sum
	users    map[string]*Sum
	groups   map[string]*Sum
	clients  map[string]*Sum
	models   map[string]*Sum
	projects map[string]*Sum
	hours    [hours]Hour // by the hour of the epoch, modulo their number
	sessions map[string]Identity
}

// Hour is the actual cost of an hour's turns and the cost without edits.
type Hour struct {
	// At is the beginning of the hour.
	At time.Time `json:"at"`
	// Sum is the sum of its turns.
	Sum Sum `json:"sum"`
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
}

// NewTally returns an empty tally that begins now.
func NewTally(now func() time.Time) *Tally {
	t := &Tally{now: now, began: now(), sessions: map[string]Identity{}}
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
	t.day, t.ends, t.total = day, time.Date(y, m, d+1, 0, 0, 0, 0, now.Location()), Sum{}
	t.users, t.clients, t.models, t.projects = map[string]*Sum{}, map[string]*Sum{}, map[string]*Sum{}, map[string]*Sum{}
	t.groups = map[string]*Sum{}
}

// Add counts a record. It does not retain it.
func (t *Tally) Add(r *Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.Session != "" {
		// A full map is dropped: it is rebuilt from the next turns.
		if len(t.sessions) >= maxSessions {
			clear(t.sessions)
		}
		t.sessions[r.Session] = Identity{r.User, r.Client, r.ReadEstimated > 0, r.Fallback}
	}
	t.count(r)
}

func (t *Tally) count(r *Record) {
	t.turnOver()
	if h := r.At.Truncate(time.Hour); t.now().Sub(h) < hours*time.Hour {
		// The hours are a ring: an hour overwrites that of the day before.
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
	limit := maxNames
	if !r.Spent() {
		limit /= 2 // requests without usage leave room for real users
	}
	of(t.users, r.User, limit).Add(r)
	of(t.clients, r.Client, limit).Add(r)
	of(t.models, r.ModelName(), limit).Add(r)
	of(t.projects, r.ProjectName(), limit).Add(r)
	for _, name := range r.GroupNames() {
		of(t.groups, name, limit).Add(r)
	}
	if r.User == r.Tenant {
		return
	}
	if before := t.users[r.Tenant]; before != nil { // the tenant's turns from before it had a user name
		of(t.users, r.User, limit).Join(before)
		delete(t.users, r.Tenant)
	}
}

func of(sums map[string]*Sum, name string, limit int) *Sum {
	s := sums[name]
	if s != nil {
		return s
	}
	if len(sums) >= limit {
		if name = Others; sums[name] != nil {
			return sums[name]
		}
	}
	s = &Sum{Name: name}
	sums[name] = s
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

// Today is the content of a tally.
type Today struct {
	// Since is the start of the counted time: midnight, or the start of the process if nothing was
	// on record before.
	Since time.Time `json:"since"`
	// Zone is the time zone of that midnight.
	Zone string `json:"zone"`
	// Total is the sum of all turns.
	Total Sum `json:"total"`
	// Hours are the last 24 hours, the oldest first. Hours without turns are left out.
	Hours []Hour `json:"hours"`
	// Users, Groups, Projects, Clients and Models are the sums by user, group, project, client and model,
	// the largest saving first. A turn is in the sums of all groups of its user.
	Users    []Sum `json:"people"`
	Groups   []Sum `json:"groups"`
	Projects []Sum `json:"projects"`
	Clients  []Sum `json:"clients"`
	Models   []Sum `json:"models"`
}

// Today returns the sums of today.
func (t *Tally) Today() Today {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turnOver()
	d := Today{
		Since: t.day, Total: t.total, Hours: []Hour{},
		Users: sorted(t.users), Groups: sorted(t.groups), Projects: sorted(t.projects), Clients: sorted(t.clients), Models: sorted(t.models),
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

// Identity returns the user of a session that has had a request lately.
func (t *Tally) Identity(session string) Identity {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sessions[session]
}

func sorted(sums map[string]*Sum) []Sum {
	all := make([]Sum, 0, len(sums))
	for _, s := range sums {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b Sum) int {
		aDollars, aUnits := a.Worth()
		bDollars, bUnits := b.Worth()
		return cmp.Or(cmp.Compare(bDollars, aDollars), cmp.Compare(bUnits, aUnits), cmp.Compare(a.Name, b.Name))
	})
	return all
}
