// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package report sums up the net savings in the audit records: as a table, as JSON, as CSV, and as a
// self-contained page of HTML.
package report

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/subscription"
)

// Keys are the keys that records can be grouped by.
var Keys = []string{"user", "group", "project", "model", "client", "session", "fallback", "day"}

// Sum is the sum of turns.
type Sum = audit.Sum

func share(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return part / whole
}

// Group is the sum of the turns with the same values of the keys in [Summary.By].
type Group struct {
	// Keys are the values by key. The name of the sum has them all.
	Keys map[string]string `json:"keys,omitempty"`
	*Sum
}

// Part is a named part of a sum.
type Part struct {
	// Name is a stage, an epoch or a cause.
	Name string `json:"name"`
	// Turns counts the turns with this stage, epoch or cause.
	Turns int64 `json:"turns"`
	// Units is the part of the net saving, in uncached input tokens. USD is the same in US dollars,
	// for turns with a known price.
	Units float64 `json:"units"`
	USD   float64 `json:"usd"`
}

// Latency is a distribution of durations, in milliseconds.
type Latency struct {
	// Name is the duration: first byte, first token, last token or own time.
	Name string  `json:"name"`
	P50  float64 `json:"p50_ms"`
	P90  float64 `json:"p90_ms"`
	P99  float64 `json:"p99_ms"`
}

// Summary sums up the records of a time span.
type Summary struct {
	// Since and Until bound the time span.
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// By has the keys of Groups, separated by commas.
	By string `json:"by"`
	// Groups are the sums, the largest saving first, days in order. By user groups, a turn is in the
	// sums of all groups of its user, and once in Total.
	Groups []*Group `json:"groups"`
	// Total is the sum of all groups.
	Total *Sum `json:"total"`
	// Unpriced are the models without a known price, the dearest first. Their costs, in uncached
	// input tokens, are in no sum of dollars.
	Unpriced []*Sum `json:"unpriced"`
	// Assumed are the models for which others stand in, because their own rules or prices
	// are unknown: `<model> assumed from <model> charged as <model>`.
	Assumed []*Sum `json:"assumed"`
	// Days are the sums by day.
	Days []*Sum `json:"days"`
	// Stages are the net savings by stage. A turn's saving is shared by the tokens that each
	// stage's edits remove from it, earlier edits included: an edit counts as long as it stays.
	Stages []Part `json:"stages"`
	// Epochs are the net savings of conversations from their first fold on, shared by the tokens that each epoch
	// removed. They include the turn that pays for a fold and the turns that benefit.
	Epochs []Part `json:"epochs"`
	// Breaks counts the turns with a cache miss by cause.
	Breaks []Part `json:"breaks"`
	// Latencies are those of completed turns.
	Latencies []Latency `json:"latencies"`
	// Windows are the usage windows of subscriptions in their latest state, by user.
	Windows []subscription.State `json:"windows"`
	// Coalesced counts the turns that have lost their details.
	Coalesced int64 `json:"coalesced"`
}

// samples bounds the latencies that percentiles are computed from.
const samples = 100_000

// reservoir is a uniform sample of values (reservoir sampling).
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

// Summarise sums up the records since a time, grouped by some of Keys, separated by commas.
func Summarise(ctx context.Context, from audit.Source, since time.Time, by string) (*Summary, error) {
	keys, err := keysOf(by)
	if err != nil {
		return nil, err
	}
	s := &Summary{Since: since, Until: time.Now(), By: strings.Join(keys, ","), Total: &Sum{Name: "total"}}
	grouped := groups{keys: keys, of: map[string]*Group{}}
	days, unpriced, assumed := map[string]*Sum{}, map[string]*Sum{}, map[string]*Sum{}
	stages, epochs, breaks := parts{}, parts{}, parts{}
	folds := map[conversation]parts{}     // folded tokens by epoch
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a fair choice, the same every time
	latencies := [4]reservoir{{random: random}, {random: random}, {random: random}, {random: random}}
	subscriptions := subscription.New()
	names := map[string]string{} // of users by tenant hash, for turns before they had names
	err = from.Each(ctx, since, func(r *audit.Record) error {
		if r.User != r.Tenant {
			if other, ok := names[r.Tenant]; ok && other != r.User {
				names[r.Tenant] = "" // several users share the credential
			} else {
				names[r.Tenant] = r.User
			}
		}
		s.Total.Add(r)
		in := audit.NoGroup
		if slices.Contains(keys, "group") {
			in = r.GroupNames() // a turn counts in each of them
		}
		for _, group := range in {
			grouped.at(func(key string) string {
				if key == "group" {
					return group
				}
				return keyFuncs[key](r)
			}).Add(r)
		}
		r.CountWindows(subscriptions)
		sum(days, day(r)).Add(r)
		if r.Unpriced() {
			sum(unpriced, r.ModelName()).Add(r)
		}
		if r.PricesOf != "" || r.AssumedFrom != "" {
			sum(assumed, r.Assumptions()).Add(r)
		}
		// A sum has lost the details of its turns.
		if r.Turns > 1 {
			s.Coalesced += r.Turns
			return nil
		}
		saved := worth{r.ClientCost - r.Cost, r.ClientUSD - r.USD}
		stages.share(r.Edits, saved)
		of := conversation{r.Session, r.Conversation}
		if r.Folded > 0 {
			if folds[of] == nil {
				folds[of] = parts{}
			}
			folds[of].of(r.Epoch).Units += float64(max(r.Removed, 1))
		}
		// A fold saves in this turn and in all later ones of its conversation.
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
	grouped.rename(names)
	s.Windows = subscriptions.States()
	s.Groups, s.Days, s.Unpriced, s.Assumed = grouped.sorted(), sorted(days), sorted(unpriced), sorted(assumed)
	slices.SortStableFunc(s.Unpriced, func(a, b *Sum) int { return cmp.Compare(b.Cost, a.Cost) })
	slices.SortFunc(s.Days, func(a, b *Sum) int { return cmp.Compare(a.Name, b.Name) })
	s.Stages, s.Epochs, s.Breaks = stages.sorted(), epochs.sorted(), breaks.sorted()
	for i, name := range [...]string{"first byte", "first token", "last token", "own time"} {
		v := &latencies[i]
		slices.Sort(v.values)
		s.Latencies = append(s.Latencies, Latency{name, v.at(0.5), v.at(0.9), v.at(0.99)})
	}
	return s, nil
}

// groups are groups by their keys.
type groups struct {
	keys []string
	of   map[string]*Group // by all values
}

// at returns the group with some values of the keys.
func (g *groups) at(value func(key string) string) *Group {
	var few [128]byte
	id := few[:0]
	for _, key := range g.keys {
		id = append(append(id, value(key)...), 0)
	}
	group := g.of[string(id)]
	if group != nil {
		return group
	}
	group = &Group{Keys: make(map[string]string, len(g.keys)), Sum: new(Sum)}
	names := make([]string, len(g.keys))
	for i, key := range g.keys {
		if names[i] = value(key); names[i] == "" {
			names[i] = audit.None
		}
		group.Keys[key] = names[i]
	}
	group.Name = strings.Join(names, " / ")
	g.of[string(id)] = group
	return group
}

// rename moves the sums of tenant hashes to the names that their users got later.
func (g *groups) rename(names map[string]string) {
	for id, before := range maps.Clone(g.of) {
		name := names[before.Keys["user"]]
		// Without a name, several users share the credential.
		if name == "" {
			continue
		}
		delete(g.of, id)
		g.at(func(key string) string {
			if key == "user" {
				return name
			}
			return before.Keys[key]
		}).Join(before.Sum)
	}
}

func (g *groups) sorted() []*Group {
	out := slices.Collect(maps.Values(g.of))
	slices.SortFunc(out, func(a, b *Group) int {
		// Days stay in their order.
		return cmp.Or(cmp.Compare(a.Keys["day"], b.Keys["day"]), bySaving(a.Sum, b.Sum))
	})
	return out
}

// day returns the day of a record.
func day(r *audit.Record) string { return r.At.Local().Format(time.DateOnly) }

// keyFuncs are the values of a record by key. A record may have several groups, see Summarise.
var keyFuncs = map[string]func(*audit.Record) string{
	"user":     func(r *audit.Record) string { return r.User },
	"project":  (*audit.Record).ProjectName,
	"model":    (*audit.Record).ModelName,
	"client":   func(r *audit.Record) string { return r.Client },
	"session":  func(r *audit.Record) string { return r.Session },
	"fallback": (*audit.Record).FallbackName,
	"day":      day,
}

// keysOf splits a list of keys.
func keysOf(by string) (keys []string, err error) {
	for key := range strings.SplitSeq(by, ",") {
		if key = strings.TrimSpace(key); !slices.Contains(Keys, key) || slices.Contains(keys, key) {
			return nil, fmt.Errorf("by must be some of %s, each once and separated by commas, got %q", strings.Join(Keys, ", "), by)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func sum(of map[string]*Sum, name string) *Sum {
	if name == "" {
		name = audit.None
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
	slices.SortFunc(out, bySaving)
	return out
}

// bySaving orders sums by their savings, the largest first.
func bySaving(a, b *Sum) int {
	aDollars, aUnits := a.Worth()
	bDollars, bUnits := b.Worth()
	return cmp.Or(cmp.Compare(bDollars, aDollars), cmp.Compare(bUnits, aUnits), cmp.Compare(a.Name, b.Name))
}

type parts map[string]*Part

func (p parts) of(name string) *Part {
	if p[name] == nil {
		p[name] = &Part{Name: name}
	}
	return p[name]
}

type conversation struct {
	session      string
	conversation int
}

type worth struct{ units, usd float64 }

func (p parts) add(name string, w worth, part float64) {
	to := p.of(name)
	to.Turns++
	to.Units += part * w.units
	to.USD += part * w.usd
}

// share divides the saving of a turn among its stages.
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

// live divides the saving of a turn among the epochs of its conversation's folds.
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
