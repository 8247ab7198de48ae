// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package estimate estimates from transcripts the savings that the handler would have had.
package estimate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/transcript"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/figure"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Options configure an estimate.
type Options struct {
	trial.Options
	// Requests bounds the simulated requests: conversations are drawn up to that number. Default:
	// 0, all.
	Requests int
	// Reading, if set, receives the number of transcripts read so far, from several goroutines.
	Reading func(done, total int)
}

// Estimate is the estimate of the handler's savings in conversations without it.
type Estimate struct {
	// Since and Until are the beginnings of the first and the last conversation with a recorded time.
	Since time.Time `json:"since"`
	// Until: see Since.
	Until time.Time `json:"until"`
	// Bytes is the size of the transcripts.
	Bytes int64 `json:"bytes"`
	// Unreadable counts the unreadable transcripts, UnknownLines the unknown lines of the others.
	Unreadable int `json:"unreadable"`
	// UnknownLines: see Unreadable.
	UnknownLines int `json:"unknown_lines"`
	// Failed counts the conversations that could not be simulated. Failure is the reason of the
	// first failure.
	Failed int `json:"failed"`
	// Failure: see Failed.
	Failure string `json:"failure,omitempty"`
	// Total is the group of all conversations.
	Total Group `json:"total"`
	// Projects are the groups by project and agent, the dearest first.
	Projects []*Group `json:"projects"`
	// Unpriced are the models without a known price, sorted by tokens, most first.
	Unpriced []Unpriced `json:"unpriced,omitempty"`
	// Lengths are the groups by number of requests.
	Lengths []*Group `json:"lengths"`
	// Interval bounds the cost of all conversations with a confidence of 95 %, nil for fewer than 10 simulated ones.
	Interval *Interval `json:"interval,omitempty"`
	// Median is the cost of the median conversation as a multiple of its cost without the handler,
	// Worst that of the worst conversation.
	Median float64 `json:"median"`
	// Worst: see Median.
	Worst float64 `json:"worst"`
}

// Group is a group of conversations.
type Group struct {
	// Project is the project folder, Agent the agent.
	Project string `json:"project,omitempty"`
	// Agent: see Project.
	Agent string `json:"agent,omitempty"`
	// Conversations and Requests are their numbers.
	Conversations int `json:"conversations"`
	// Requests: see Conversations.
	Requests int `json:"requests"`
	// Tokens is the billed tokens of the prompts, as far as they are recorded.
	Tokens int64 `json:"tokens"`
	// Paid is the cost at list prices, in US dollars. Models without a known price are left out.
	Paid float64 `json:"paid_usd"`
	// Saved is the estimated saving, from the simulated conversations. It is empty in groups by
	// length, where a few long conversations may represent many.
	Saved float64 `json:"saved_usd"`
	// Simulated is the sum of the simulated conversations.
	Simulated trial.Result `json:"simulated"`
	// Drawn is their number.
	Drawn int `json:"drawn"`
}

// Interval bounds a cost as a multiple of the cost without the handler.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// String returns the interval as changes: "-28.0 % to -22.0 %".
func (i *Interval) String() string { return figure.Change(i.Low) + " to " + figure.Change(i.High) }

// Unpriced is a model without a known price.
type Unpriced struct {
	// Model is its name.
	Model string `json:"model"`
	// Tokens is the billed tokens of its prompts, which are in no sum of dollars.
	Tokens int64 `json:"tokens"`
}

// Share returns the saved share of the cost in the simulated conversations.
func (g *Group) Share() float64 { return 1 - g.Simulated.CostRatio() }

type talk struct {
	source   transcript.Source
	session  int // index within the source
	id       string
	group    *Group
	length   *Group
	requests int
	tokens   int64
	paid     float64
	result   *trial.Result
}

var lengths = []struct {
	name string
	upTo int
}{{"up to 20 requests", 20}, {"21 to 100", 100}, {"over 100", math.MaxInt}}

// Run estimates the savings in the conversations of the sources. Conversations that cannot be read
// or simulated are left out and counted.
func (o Options) Run(ctx context.Context, sources []transcript.Source) (*Estimate, error) {
	bench, err := trial.NewBench(o.Options)
	if err != nil {
		return nil, err
	}
	defer bench.Close()
	o.Prices = cmp.Or(o.Prices, pricing.BuiltIn())
	e := &Estimate{}
	talks := e.read(ctx, sources, &o)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	drawn := draw(talks, o.Requests)
	if err := e.simulate(ctx, bench, drawn, &o); err != nil {
		return nil, err
	}
	e.sum(talks)
	return e, nil
}

func each[T any](ctx context.Context, workers int, things []T, do func(T)) {
	queue := make(chan T)
	var group sync.WaitGroup
	for range max(1, cmp.Or(workers, runtime.GOMAXPROCS(0))) {
		group.Go(func() {
			for t := range queue {
				if ctx.Err() == nil {
					do(t)
				}
			}
		})
	}
	for _, t := range things {
		queue <- t
	}
	close(queue)
	group.Wait()
}

// read reads all transcripts once for their bills, and retains nothing else.
func (e *Estimate) read(ctx context.Context, sources []transcript.Source, o *Options) []*talk {
	var mu sync.Mutex
	var talks []*talk
	groups := map[[2]string]*Group{}
	for _, l := range lengths {
		e.Lengths = append(e.Lengths, &Group{Project: l.name})
	}
	var done atomic.Int64
	each(ctx, o.Workers, sources, func(s transcript.Source) {
		sessions, err := s.Read()
		mu.Lock()
		defer mu.Unlock()
		e.Bytes += s.Bytes
		if err != nil {
			e.Unreadable++
		}
		for i, one := range sessions {
			key := [2]string{one.Project, one.Agent}
			if groups[key] == nil {
				groups[key] = &Group{Project: one.Project, Agent: one.Agent}
				e.Projects = append(e.Projects, groups[key])
			}
			t := &talk{source: s, session: i, id: one.ID, group: groups[key], requests: one.Calls()}
			t.length = e.Lengths[slices.IndexFunc(lengths, func(l struct {
				name string
				upTo int
			},
			) bool {
				return t.requests <= l.upTo
			})]
			e.count(t, one, o.Prices)
			talks = append(talks, t)
		}
		if o.Reading != nil {
			o.Reading(int(done.Add(1)), len(sources))
		}
	})
	slices.SortFunc(talks, func(a, b *talk) int {
		return cmp.Or(cmp.Compare(a.source.Path, b.source.Path), cmp.Compare(a.source.Session, b.source.Session),
			cmp.Compare(a.session, b.session))
	})
	for _, t := range talks {
		for _, g := range []*Group{t.group, t.length, &e.Total} {
			g.Conversations++
			g.Requests += t.requests
			g.Tokens += t.tokens
			g.Paid += t.paid
		}
	}
	slices.SortFunc(e.Unpriced, func(a, b Unpriced) int {
		return cmp.Or(cmp.Compare(b.Tokens, a.Tokens),
			cmp.Compare(a.Model, b.Model))
	})
	slices.SortFunc(e.Projects, func(a, b *Group) int {
		return cmp.Or(cmp.Compare(b.Paid, a.Paid), cmp.Compare(b.Tokens, a.Tokens), cmp.Compare(a.Project, b.Project),
			cmp.Compare(a.Agent, b.Agent))
	})
	return talks
}

func (e *Estimate) count(t *talk, s *transcript.Session, prices *pricing.Table) {
	e.UnknownLines += s.Unknown
	if e.Since.IsZero() || !s.Started.IsZero() && s.Started.Before(e.Since) {
		e.Since = s.Started
	}
	if s.Started.After(e.Until) {
		e.Until = s.Started
	}
	rules := prices.Lookup("", s.Model, s.Started)
	priced := rules.Input > 0 && rules.PricesOf == ""
	for _, p := range s.Parts {
		for _, c := range p.Calls {
			if c.Usage == nil {
				continue
			}
			u := promptBilled(c.Usage)
			t.tokens += u.Prompt()
			if priced {
				t.paid += rules.Dollars(u)
			}
		}
	}
	if priced || t.tokens == 0 {
		return
	}
	i := slices.IndexFunc(e.Unpriced, func(u Unpriced) bool { return u.Model == s.Model })
	if i < 0 {
		i, e.Unpriced = len(e.Unpriced), append(e.Unpriced, Unpriced{Model: s.Model})
	}
	e.Unpriced[i].Tokens += t.tokens
}

func promptBilled(u *transcript.Usage) wire.Usage {
	out := wire.Usage{Uncached: u.Input, Read: u.Read, Write5m: u.Write}
	if long := min(u.CacheCreation.Long, u.Write); long > 0 {
		out.Write1h, out.Write5m = long, u.Write-long
	}
	return out
}

// draw draws conversations until there are enough requests.
func draw(talks []*talk, requests int) []*talk {
	if requests <= 0 {
		return talks
	}
	ordered := slices.Clone(talks)
	slices.SortStableFunc(ordered, func(a, b *talk) int { return cmp.Compare(order(a.id), order(b.id)) })
	turns := map[*Group]int{}
	// Projects take turns, each in the order of a hash of its ids, so the same ones are drawn every time.
	turn := make(map[*talk]int, len(talks))
	for _, t := range ordered {
		turn[t] = turns[t.group]
		turns[t.group]++
	}
	slices.SortStableFunc(ordered, func(a, b *talk) int { return cmp.Compare(turn[a], turn[b]) })
	n := 0
	for i, t := range ordered {
		if n += t.requests; n > requests && i > 0 {
			return ordered[:i]
		}
	}
	return ordered
}

// order returns a hash of the id, unrelated to the conversation.
func order(id string) int { return recording.Fold(id, math.MaxInt) }

func (e *Estimate) simulate(ctx context.Context, bench *trial.Bench, drawn []*talk, o *Options) error {
	total := 0
	for _, t := range drawn {
		total += t.requests
	}
	var done atomic.Int64
	progress := func() {
		if n := done.Add(1); o.Progress != nil {
			o.Progress(int(n), total)
		}
	}
	var mu sync.Mutex
	ordered := slices.SortedStableFunc(slices.Values(drawn),
		func(a, b *talk) int { return cmp.Compare(b.requests, a.requests) })
	each(ctx, o.Workers, ordered, func(t *talk) {
		r, err := t.simulate(ctx, bench, o.Prices, progress)
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			if e.Failed++; e.Failure == "" {
				e.Failure = fmt.Sprintf("%s: %v", t.source.Path, err)
			}
			return
		}
		t.result = r
	})
	return ctx.Err()
}

func (t *talk) simulate(
	ctx context.Context, bench *trial.Bench, prices *pricing.Table, progress func(),
) (*trial.Result, error) {
	sessions, err := t.source.Read()
	if err != nil {
		return nil, err
	}
	if t.session >= len(sessions) {
		return nil, fmt.Errorf("it has become shorter")
	}
	s := sessions[t.session]
	return bench.Replay(ctx, recording.FromTranscript(s), profileOf(s, prices), progress)
}

// profileOf returns the provider and client of a conversation.
func profileOf(s *transcript.Session, prices *pricing.Table) pricing.Profile {
	p := pricing.Profile{
		Name: s.Model, Provider: prices.Lookup("", s.Model, s.Started).Provider, Model: s.Model, Format: wire.OpenAIChat,
		Adaptive: true, Prices: prices,
	}
	// The conversation keeps its own model, in the format of its agents.
	switch p.Provider {
	case "anthropic", "bedrock", "vertex":
		p.Format, p.LongTTL = wire.Anthropic, s.LongCaches()
	case "openai", "azure":
		p.Format = wire.OpenAIResponses
	case "gemini":
		p.Format = wire.Gemini
	}
	return p
}

func (e *Estimate) sum(talks []*talk) {
	var ratios []float64
	for _, t := range talks {
		if t.result == nil {
			continue
		}
		for _, g := range []*Group{t.group, t.length, &e.Total} {
			g.Simulated.Add(t.result)
			g.Drawn++
		}
		ratios = append(ratios, t.result.CostRatio())
	}
	// A project's saving is in proportion to its cost. Projects without a simulated conversation
	// get the total share.
	for _, g := range e.Projects {
		g.Saved = g.Paid * e.Total.Share()
		if g.Drawn > 0 {
			g.Saved = g.Paid * g.Share()
		}
		e.Total.Saved += g.Saved
	}
	e.Interval = bootstrap(talks)
	if slices.Sort(ratios); len(ratios) > 0 {
		e.Median, e.Worst = ratios[len(ratios)/2], ratios[len(ratios)-1]
	}
}

const (
	minBootstrap = 10
	resamples    = 2000
)

// bootstrap returns the interval in which the cost of other conversations like the simulated ones lies. Each resample
// draws as many conversations, with repetitions. The seed is fixed, so equal transcripts have equal intervals.
func bootstrap(talks []*talk) *Interval {
	var known []*trial.Result
	for _, t := range talks {
		if t.result != nil && t.result.BaseCost > 0 {
			known = append(known, t.result)
		}
	}
	if len(known) < minBootstrap {
		return nil
	}
	random := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // no secret
	ratios := make([]float64, resamples)
	for i := range ratios {
		cost, base := 0.0, 0.0
		for range known {
			r := known[random.IntN(len(known))]
			cost, base = cost+r.Cost, base+r.BaseCost
		}
		ratios[i] = cost / base
	}
	slices.Sort(ratios)
	return &Interval{Low: ratios[resamples*25/1000], High: ratios[resamples*975/1000]}
}

func (g *Group) name() string {
	if g.Project == "" {
		return "(no folder)"
	}
	if g.Agent == "" {
		return g.Project
	}
	return filepath.Base(g.Project)
}
