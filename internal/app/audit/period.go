// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/holdout"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/subscription"
)

// Dimension is a property by which turns are told apart.
type Dimension struct {
	// Key is the name of the property.
	Key string
	// Of returns a turn's value.
	Of func(*Record) string
	// All returns the values of a turn that may have several, in place of Of: it counts in the sums of each.
	All func(*Record) []string
}

// Dimensions are the dimensions of the page. The first one is the user.
var Dimensions = []Dimension{
	{Key: "user", Of: func(r *Record) string { return r.User }},
	{Key: "group", All: (*Record).GroupNames},
	{Key: "project", Of: (*Record).ProjectName},
	{Key: "model", Of: (*Record).ModelName},
	{Key: "client", Of: func(r *Record) string { return r.Client }},
}

// Period sums up the turns of a time span.
type Period struct {
	// Since and Until bound the time span. Without records of its beginning, Since is the start of
	// counting. Until is zero if the span goes on.
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"`
	// Zone is the time zone of days and hours.
	Zone string `json:"zone"`
	// Total is the sum of all turns. Before is the sum of the span before, of the same length up to
	// the same time, nil if unknown.
	Total  *Sum `json:"total"`
	Before *Sum `json:"before,omitempty"`
	// Trend has the sums by day, or by hour, the oldest first.
	Trend []Step `json:"trend"`
	// Dimensions are the sums by user, project and so on, the largest saving first.
	Dimensions []Breakdown `json:"dimensions"`
	// Unpriced are the models without a known price, the dearest first. Their costs, in uncached
	// input tokens, are in no sum of dollars.
	Unpriced []*Sum `json:"unpriced"`
	// Assumed are the models for which others stand in, because their own rules or prices
	// are unknown: `<model> assumed from <model> charged as <model>`.
	Assumed []*Sum `json:"assumed"`
	// Stages are the net savings by stage. A turn's saving is shared by the tokens that each
	// stage's edits remove from it, earlier edits included: an edit counts as long as it stays.
	Stages []Part `json:"stages"`
	// Epochs are the net savings of conversations from their first fold on, shared by the tokens that each epoch
	// removed. They include the turn that pays for a fold and the turns that benefit.
	Epochs []Part `json:"epochs"`
	// Breaks are the turns with a cache miss, by cause and client, the dearest first.
	Breaks []Break `json:"breaks"`
	// Errors counts the requests that did not complete, the most frequent first.
	Errors []Errors `json:"errors"`
	// Latencies are those of completed turns.
	Latencies []Latency `json:"latencies"`
	// Windows are the usage windows of subscriptions in their latest state, by user, in a report.
	Windows []subscription.State `json:"windows,omitempty"`
	// Holdout compares the sessions with those of the control group, nil without one.
	Holdout *holdout.Comparison `json:"holdout,omitempty"`
	// Coalesced counts the turns that have lost their details.
	Coalesced int64 `json:"coalesced"`
}

// Of returns the sums by a dimension.
func (p *Period) Of(key string) []*Sum {
	for _, b := range p.Dimensions {
		if b.Key == key {
			return b.Sums
		}
	}
	return nil
}

// Breakdown has the sums by one dimension.
type Breakdown struct {
	// Key is the dimension.
	Key string `json:"key"`
	// Sums are the sums, the largest saving first.
	Sums []*Sum `json:"sums"`
}

// Step is an hour or a day of a trend.
type Step struct {
	// At is the beginning, and Name the hour or the date in the period's time zone.
	At   time.Time `json:"at"`
	Name string    `json:"name"`
	// The other members are those of a Sum.
	Turns      int64   `json:"turns"`
	Failed     int64   `json:"failed"`
	Prompt     int64   `json:"prompt"`
	Read       int64   `json:"read"`
	Cost       float64 `json:"cost"`
	ClientCost float64 `json:"client_cost"`
	USD        float64 `json:"usd"`
	ClientUSD  float64 `json:"client_usd"`
}

func step(at time.Time, format string, s *Sum) Step {
	return Step{
		At: at, Name: at.Format(format), Turns: s.Turns, Failed: s.Failed + s.Interrupted, Prompt: s.Billed.Prompt(),
		Read: s.Billed.Read, Cost: s.Cost, ClientCost: s.ClientCost, USD: s.USD, ClientUSD: s.ClientUSD,
	}
}

// Part is a named part of a sum.
type Part struct {
	// Name is a stage or an epoch.
	Name string `json:"name"`
	// Turns counts the turns with this stage or epoch.
	Turns int64 `json:"turns"`
	// Units is the part of the net saving, in uncached input tokens. USD is the same in US dollars,
	// for turns with a known price.
	Units float64 `json:"units"`
	USD   float64 `json:"usd"`
}

// Break is the sum of the turns of a client in which the upstream's cache held less than expected.
type Break struct {
	// Cause is the reason, and Client the name of the client.
	Cause  string `json:"cause"`
	Client string `json:"client"`
	// Turns counts the turns.
	Turns int64 `json:"turns"`
	// Units is the cost of the tokens that the cache lacked, beyond that of reading them, in uncached input
	// tokens. USD is the same in US dollars, for turns with a known price.
	Units float64 `json:"units"`
	USD   float64 `json:"usd"`
}

// Errors counts the requests of one model that ended in the same way.
type Errors struct {
	// Outcome is the end of the requests, see Completed. Status is the HTTP status, 0 without a response.
	Outcome string `json:"outcome"`
	Status  int    `json:"status"`
	Model   string `json:"model"`
	// Turns counts the requests, and Last is the time of the last one.
	Turns int64     `json:"turns"`
	Last  time.Time `json:"last"`
}

const (
	// maxErrors bounds the kinds of errors that are told apart.
	maxErrors = 100
	// maxBreaks bounds the causes and clients of cache misses that are told apart.
	maxBreaks = 200
	// maxFolded bounds the conversations whose folds are known.
	maxFolded = 1 << 16
)

// collector sums up records, the oldest first. It retains none of them.
type collector struct {
	total     Sum
	by        []map[string]*Sum // in the order of Dimensions
	names     map[string]string // of users by tenant hash, for turns before they had names
	days      map[time.Time]*Sum
	day, next time.Time // bounds of the day that was used last
	unpriced  map[string]*Sum
	assumed   map[string]*Sum
	stages    parts
	epochs    parts
	breaks    map[Break]*Break       // by cause and client
	folds     map[conversation]parts // folded tokens by epoch
	errors    map[Errors]*Errors     // by outcome, status and model
	latencies [len(latencyNames)]histogram
	compared  compared
	coalesced int64
}

func newCollector() *collector {
	c := &collector{
		by: make([]map[string]*Sum, len(Dimensions)), names: map[string]string{}, days: map[time.Time]*Sum{},
		unpriced: map[string]*Sum{}, assumed: map[string]*Sum{}, stages: parts{}, epochs: parts{}, breaks: map[Break]*Break{},
		folds: map[conversation]parts{}, errors: map[Errors]*Errors{}, compared: compared{},
	}
	for i := range c.by {
		c.by[i] = map[string]*Sum{}
	}
	return c
}

// add counts a record. The zone is that of its days.
func (c *collector) add(r *Record, zone *time.Location) {
	limit := maxNames
	if !r.Spent() {
		limit /= 2 // requests without usage leave room for real users
	}
	if r.User != r.Tenant && (len(c.names) < limit || c.names[r.Tenant] != "") {
		if other, ok := c.names[r.Tenant]; ok && other != r.User {
			c.names[r.Tenant] = "" // several users share the credential
		} else {
			c.names[r.Tenant] = r.User
		}
	}
	c.total.Add(r)
	for i, d := range Dimensions {
		if d.All == nil {
			of(c.by[i], d.Of(r), limit).Add(r)
			continue
		}
		for _, name := range d.All(r) {
			of(c.by[i], name, limit).Add(r)
		}
	}
	c.dayOf(r.At, zone).Add(r)
	if r.Unpriced() {
		of(c.unpriced, r.ModelName(), limit).Add(r)
	}
	if r.PricesOf != "" || r.AssumedFrom != "" {
		of(c.assumed, r.Assumptions(), limit).Add(r)
	}
	if r.Outcome == Failed || r.Outcome == Interrupted || r.Outcome == Refused {
		c.failed(r)
	}
	c.compared.add(r)
	// A sum has lost the details of its turns.
	if r.Turns > 1 {
		c.coalesced += r.Turns
		return
	}
	saved := worth{r.ClientCost - r.Cost, r.ClientUSD - r.USD}
	c.stages.share(r.Edits, saved)
	thread := conversation{r.Session, r.Conversation}
	if r.Folded > 0 {
		if c.folds[thread] == nil {
			if len(c.folds) >= maxFolded {
				clear(c.folds)
			}
			c.folds[thread] = parts{}
		}
		c.folds[thread].of(r.Epoch).Units += float64(max(r.Removed, 1))
	}
	// A fold saves in this turn and in all later ones of its conversation.
	c.epochs.live(c.folds[thread], saved)
	if r.Break != "" {
		c.broken(r)
	}
	if r.Outcome == Completed {
		for i, d := range [...]time.Duration{r.FirstByte, r.FirstToken, r.LastToken, r.Queue} {
			c.latencies[i].add(d)
		}
	}
}

func (c *collector) dayOf(at time.Time, zone *time.Location) *Sum {
	if at.Before(c.day) || !at.Before(c.next) {
		y, m, d := at.In(zone).Date()
		c.day, c.next = time.Date(y, m, d, 0, 0, 0, 0, zone), time.Date(y, m, d+1, 0, 0, 0, 0, zone)
	}
	s := c.days[c.day]
	if s == nil {
		s = new(Sum)
		c.days[c.day] = s
	}
	return s
}

func (c *collector) broken(r *Record) {
	key := Break{Cause: r.Break, Client: r.Client}
	if len(c.breaks) >= maxBreaks && c.breaks[key] == nil {
		key.Client = Others
	}
	b := c.breaks[key]
	if b == nil {
		b = &Break{Cause: key.Cause, Client: Bounded(key.Client)}
		c.breaks[key] = b
	}
	b.Turns++
	b.Units += float64(r.BreakCost)
	if r.Cost > 0 {
		b.USD += float64(r.BreakCost) * r.USD / r.Cost
	}
}

func (c *collector) failed(r *Record) {
	key := Errors{Outcome: r.Outcome, Status: r.Status, Model: r.ModelName()}
	if len(c.errors) >= maxErrors && c.errors[key] == nil {
		key.Model = Others
	}
	e := c.errors[key]
	if e == nil {
		e = &Errors{Outcome: key.Outcome, Status: key.Status, Model: Bounded(key.Model)}
		c.errors[key] = e
	}
	e.Turns += r.Turns
	if r.At.After(e.Last) {
		e.Last = r.At
	}
}

// maxFilled bounds the days of a trend that are shown without turns.
const maxFilled = 62

// period returns the sums, which later records leave unchanged.
func (c *collector) period(since, until time.Time) Period {
	total := c.total
	p := Period{
		Since: since, Until: until, Total: &total, Trend: []Step{}, Unpriced: sorted(c.unpriced), Assumed: sorted(c.assumed),
		Stages: c.stages.sorted(), Epochs: c.epochs.sorted(), Breaks: []Break{}, Errors: []Errors{},
		Holdout: c.compared.compare(), Coalesced: c.coalesced,
	}
	p.Zone, _ = until.Zone()
	for i, d := range Dimensions {
		sums := c.by[i]
		if i == 0 {
			sums = renamed(sums, c.names)
		}
		p.Dimensions = append(p.Dimensions, Breakdown{d.Key, sorted(sums)})
	}
	slices.SortStableFunc(p.Unpriced, func(a, b *Sum) int { return cmp.Compare(b.Cost, a.Cost) })
	for _, b := range c.breaks {
		p.Breaks = append(p.Breaks, *b)
	}
	slices.SortFunc(p.Breaks, func(a, b Break) int {
		return cmp.Or(cmp.Compare(b.USD, a.USD), cmp.Compare(b.Units, a.Units), cmp.Compare(b.Turns, a.Turns),
			cmp.Compare(a.Cause+a.Client, b.Cause+b.Client))
	})
	days := maps.Clone(c.days)
	if until.Sub(since) < maxFilled*24*time.Hour {
		y, m, d := since.In(until.Location()).Date()
		for day := 0; ; day++ {
			at := time.Date(y, m, d+day, 0, 0, 0, 0, until.Location())
			if !at.Before(until) {
				break
			}
			if days[at] == nil {
				days[at] = new(Sum)
			}
		}
	}
	for at, s := range days {
		p.Trend = append(p.Trend, step(at, time.DateOnly, s))
	}
	slices.SortFunc(p.Trend, func(a, b Step) int { return a.At.Compare(b.At) })
	for _, e := range c.errors {
		p.Errors = append(p.Errors, *e)
	}
	slices.SortFunc(p.Errors, func(a, b Errors) int {
		return cmp.Or(cmp.Compare(b.Turns, a.Turns), cmp.Compare(a.Status, b.Status), cmp.Compare(a.Outcome, b.Outcome),
			cmp.Compare(a.Model, b.Model))
	})
	for i := range c.latencies {
		p.Latencies = append(p.Latencies, c.latencies[i].latency(latencyNames[i]))
	}
	return p
}

// renamed moves the sums of tenant hashes to the names that their users got later.
func renamed(sums map[string]*Sum, names map[string]string) map[string]*Sum {
	out := make(map[string]*Sum, len(sums))
	for name, s := range sums {
		if later := names[name]; later != "" { // otherwise several users share the credential
			name = later
		}
		joined := out[name]
		if joined == nil {
			joined = &Sum{Name: name}
			out[name] = joined
		}
		joined.Join(s)
	}
	return out
}

// Read sums up the records since a time. before returns the time to which a time of the period is
// compared, so that the period has a sum of the span before; it may be nil. each is called with every
// record of the period; it may be nil.
func Read(
	ctx context.Context, from Source, since, until time.Time, before func(time.Time) time.Time, each func(*Record),
) (Period, error) {
	c, start := newCollector(), since
	var earlier *Sum
	if before != nil {
		start, earlier = before(since), new(Sum)
	}
	err := from.Each(ctx, start, func(r *Record) error {
		if earlier != nil && r.At.Before(before(until)) {
			earlier.Add(r)
		}
		if r.At.Before(since) {
			return nil
		}
		c.add(r, until.Location())
		if each != nil {
			each(r)
		}
		return nil
	})
	if err != nil {
		return Period{}, err
	}
	p := c.period(since, until)
	p.Before = earlier
	return p, nil
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
func (p parts) share(edits []Edits, w worth) {
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
