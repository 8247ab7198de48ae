// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package report tells from the audit records what was saved, net, and where: as
// a table, as JSON, and as a page of HTML that needs nothing but itself.
package report

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
)

// Keys are what records can be grouped by.
var Keys = []string{"user", "model", "client", "session", "day"}

// Sum is what turns came to.
type Sum = audit.Sum

func share(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return part / whole
}

// Part is a share of something, by name.
type Part struct {
	// Name is what it is a part of: a stage, an epoch, a cause.
	Name string `json:"name"`
	// Turns counts the turns in which it was met.
	Turns int64 `json:"turns"`
	// Units is its part of the net saving, in uncached input tokens, and USD the same
	// in US dollars, of turns whose price is known.
	Units float64 `json:"units"`
	USD   float64 `json:"usd"`
}

// Latency is how long something took, in milliseconds.
type Latency struct {
	// Name is what: until the first byte, token, the last token, and own time.
	Name string  `json:"name"`
	P50  float64 `json:"p50_ms"`
	P90  float64 `json:"p90_ms"`
	P99  float64 `json:"p99_ms"`
}

// Summary is what the records of some time come to.
type Summary struct {
	// Since and Until bound the time.
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// By is what Groups are grouped by.
	By string `json:"by"`
	// Groups are the sums, the largest saving first; days in their order.
	Groups []*Sum `json:"groups"`
	// Total is the sum of all.
	Total *Sum `json:"total"`
	// Unpriced are the models without a known price, what their turns cost in uncached
	// input tokens, the dearest first: it is in no sum of dollars.
	Unpriced []*Sum `json:"unpriced"`
	// Assumed are the models for which others stand in, because their own rules or prices
	// are not known: `<model> assumed from <model> charged as <model>`.
	Assumed []*Sum `json:"assumed"`
	// Days are the sums by day.
	Days []*Sum `json:"days"`
	// Stages share the net saving of each turn by the tokens that their edits take out
	// of it, those included that were made in earlier turns: so each edit counts for
	// as long as it stays.
	Stages []Part `json:"stages"`
	// Epochs share the net saving of each conversation from its first fold on by the tokens
	// that each moment has taken out of it: the turn that pays for a fold and those
	// that live off it.
	Epochs []Part `json:"epochs"`
	// Breaks counts turns whose cache did not hold what it was expected to.
	Breaks []Part `json:"breaks"`
	// Latencies are those of turns that were completed.
	Latencies []Latency `json:"latencies"`
	// Coalesced counts turns that have lost their details.
	Coalesced int64 `json:"coalesced"`
}

// samples bounds the latencies that percentiles are taken of.
const samples = 100_000

// reservoir keeps a fair choice of values.
type reservoir struct {
	values []float64
	seen   int
	random *rand.Rand
}

func (v *reservoir) add(d time.Duration) {
	if d <= 0 {
		return
	}
	v.seen++
	ms := float64(d) / float64(time.Millisecond)
	if len(v.values) < samples {
		v.values = append(v.values, ms)
	} else if i := v.random.IntN(v.seen); i < samples {
		v.values[i] = ms
	}
}

func (v *reservoir) at(q float64) float64 {
	if len(v.values) == 0 {
		return 0
	}
	return v.values[int(q*float64(len(v.values)-1)+0.5)]
}

// Summarise reads the records since a time and sums them up, by one of Keys.
func Summarise(ctx context.Context, from audit.Source, since time.Time, by string) (*Summary, error) {
	key, err := keyOf(by)
	if err != nil {
		return nil, err
	}
	s := &Summary{Since: since, Until: time.Now(), By: by, Total: &Sum{Name: "total"}}
	groups, days, unpriced, assumed := map[string]*Sum{}, map[string]*Sum{}, map[string]*Sum{}, map[string]*Sum{}
	stages, epochs, breaks := parts{}, parts{}, parts{}
	folds := map[conversation]parts{}     // what each has folded, by the moment
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a fair choice, the same every time
	latencies := [4]reservoir{{random: random}, {random: random}, {random: random}, {random: random}}
	names := map[string]string{} // of people who had none at first, by their hashes
	err = from.Each(ctx, since, func(r *audit.Record) error {
		if r.User != r.Tenant {
			if other, ok := names[r.Tenant]; ok && other != r.User {
				names[r.Tenant] = "" // several people share what the hash is made of
			} else {
				names[r.Tenant] = r.User
			}
		}
		s.Total.Add(r)
		sum(groups, key(r)).Add(r)
		sum(days, day(r)).Add(r)
		if r.Unpriced() {
			sum(unpriced, r.ModelName()).Add(r)
		}
		if r.PricesOf != "" || r.AssumedFrom != "" {
			sum(assumed, r.Assumptions()).Add(r)
		}
		if r.Turns > 1 {
			s.Coalesced += r.Turns
			return nil
		}
		saved := worth{r.ClientCost - r.Cost, r.ClientUSD - r.USD}
		stages.share(r.Edits, saved)
		of := conversation{r.Session, r.Lineage}
		if r.Folded > 0 {
			if folds[of] == nil {
				folds[of] = parts{}
			}
			folds[of].of(r.Epoch).Units += float64(max(r.Removed, 1))
		}
		epochs.live(folds[of], saved)
		if r.Break != "" {
			breaks.add(r.Break, saved, 1)
		}
		if r.Outcome == audit.Completed {
			for i, d := range [...]time.Duration{r.FirstByte, r.FirstToken, r.LastToken, r.Queue} {
				latencies[i].add(d)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if by == "user" {
		rename(groups, names)
	}
	s.Groups, s.Days, s.Unpriced, s.Assumed = sorted(groups), sorted(days), sorted(unpriced), sorted(assumed)
	slices.SortStableFunc(s.Unpriced, func(a, b *Sum) int { return cmp.Compare(b.Cost, a.Cost) })
	byName := func(a, b *Sum) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(s.Days, byName)
	if by == "day" {
		slices.SortFunc(s.Groups, byName)
	}
	s.Stages, s.Epochs, s.Breaks = stages.sorted(), epochs.sorted(), breaks.sorted()
	for i, name := range [...]string{"first byte", "first token", "last token", "own time"} {
		v := &latencies[i]
		slices.Sort(v.values)
		s.Latencies = append(s.Latencies, Latency{name, v.at(0.5), v.at(0.9), v.at(0.99)})
	}
	return s, nil
}

// rename has people have been called all along what they were named since.
func rename(groups map[string]*Sum, names map[string]string) {
	for hash, name := range names {
		before := groups[hash]
		if before == nil || name == "" {
			continue
		}
		sum(groups, name).Join(before)
		delete(groups, hash)
	}
}

// day is the day of a record by the clock of this machine, as all times of a report are.
func day(r *audit.Record) string { return r.At.Local().Format(time.DateOnly) }

// keyOf returns what tells the group of a record.
func keyOf(by string) (func(*audit.Record) string, error) {
	switch by {
	case "user":
		return func(r *audit.Record) string { return r.User }, nil
	case "model":
		return (*audit.Record).ModelName, nil
	case "client":
		return func(r *audit.Record) string { return r.Client }, nil
	case "session":
		return func(r *audit.Record) string { return r.Session }, nil
	case "day":
		return day, nil
	}
	return nil, fmt.Errorf("by: %q is none of user, model, client, session, day", by)
}

func sum(of map[string]*Sum, name string) *Sum {
	if name == "" {
		name = "(none)"
	}
	s := of[name]
	if s == nil {
		s = &Sum{Name: name}
		of[name] = s
	}
	return s
}

func sorted(of map[string]*Sum) []*Sum {
	out := make([]*Sum, 0, len(of))
	for _, s := range of {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *Sum) int {
		aDollars, aUnits := a.Worth()
		bDollars, bUnits := b.Worth()
		return cmp.Or(cmp.Compare(bDollars, aDollars), cmp.Compare(bUnits, aUnits), cmp.Compare(a.Name, b.Name))
	})
	return out
}

type parts map[string]*Part

func (p parts) of(name string) *Part {
	if p[name] == nil {
		p[name] = &Part{Name: name}
	}
	return p[name]
}

// conversation is one of a session.
type conversation struct {
	session string
	lineage int
}

// worth is a saving, in both measures.
type worth struct{ units, usd float64 }

func (p parts) add(name string, w worth, part float64) {
	to := p.of(name)
	to.Turns++
	to.Units += part * w.units
	to.USD += part * w.usd
}

// share divides the saving of a turn among the stages that made it: by the tokens that they
// take out, or by their edits where those are not on record.
func (p parts) share(edits []audit.Edits, w worth) {
	tokens, n := 0, 0
	for _, e := range edits {
		tokens, n = tokens+max(e.Tokens, 0), n+e.Count
	}
	for _, e := range edits {
		part := share(float64(e.Count), float64(n))
		if tokens > 0 {
			part = share(float64(max(e.Tokens, 0)), float64(tokens))
		}
		p.add(e.Stage, w, part)
	}
}

// live divides the saving of a turn among the folds that its conversation lives off.
func (p parts) live(folds parts, w worth) {
	all := 0.0
	for _, f := range folds {
		all += f.Units
	}
	for name, f := range folds {
		p.add(name, w, f.Units/all)
	}
}

func (p parts) sorted() []Part {
	out := make([]Part, 0, len(p))
	for _, part := range p {
		out = append(out, *part)
	}
	slices.SortFunc(out, func(a, b Part) int {
		return cmp.Or(cmp.Compare(b.USD, a.USD), cmp.Compare(b.Units, a.Units), cmp.Compare(a.Name, b.Name))
	})
	return out
}
