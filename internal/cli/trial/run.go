// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package trial drives recorded conversations of coding agents through the
// real handler, on a virtual clock, to a simulated provider, and tells what it
// cost and saved against the client's own bytes, and what it did harm to.
//
// A [recording.Conversation] is a recorded session. Its requests are built as the agents send
// them, byte for byte stable; each goes through the handler to a simulated
// provider, which answers what was recorded, and once more straight to a
// second one, which gives the baseline.
package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
)

// Policies are all policies, the mildest first.
var Policies = []pipeline.Policy{pipeline.Off, pipeline.Observe, pipeline.Eager, pipeline.CostAware}

// Options say what to replay.
type Options struct {
	// Profiles are names of simulated providers, see [pricing.Profiles].
	// Default: the first one.
	Profiles []string
	// Policies are the policies to compare. Default: cost_aware.
	Policies []pipeline.Policy
	// Handler holds further options of the handler in JSON, as in a Caddy
	// configuration. The policy in it is overridden.
	Handler []byte
	// KeepAlive lets the handler keep caches alive in pauses, by its defaults or
	// as the options of the handler say.
	KeepAlive bool
	// Threads has the client keep its conversation in a thread at the provider, where
	// that has threads, and send what is new.
	Threads bool
	// Summaries has Codex ask for a summary, without its tools, where a recorded
	// conversation was compacted: the recordings leave that out.
	Summaries bool
	// Background, if above zero, lets the handler fold while nobody waits, by its
	// defaults or as its options say, and is the number of tokens that the box
	// reads in a second.
	Background float64
	// Expanding has the simulated model ask for folded text, by the expand tool,
	// where its recorded answer quotes it. What that costs is part of the cost.
	Expanding bool
	// scorer leaves words out, where the options of the handler ask for it.
	scorer *scorer
	// Need, if set, returns the need model that a conversation is replayed with.
	Need func(*recording.Conversation) (*pipeline.NeedModel, error)
	// Harm, if set, is the planner's price of harm.
	Harm *planner.Harm
	need *pipeline.NeedModel // of the conversation at hand
	// Asked, if set, is told of each request as the client sends it, from the goroutine
	// that replays its conversation.
	Asked func(*Asked)
	// Watch, if set, is told of each request when it is over, from the goroutine that
	// replays its conversation.
	Watch func(*Watched)
	// Prices are those of models. Default: the built-in table.
	Prices *pricing.Table
	// Start is when the conversations begin; prices depend on it. Default:
	// 2026-11-20 00:00 UTC.
	Start time.Time
	// Workers is how many conversations are replayed at a time. Default:
	// GOMAXPROCS.
	Workers int
	// Progress, if set, is told now and then how many of how many requests
	// have been replayed, from several goroutines.
	Progress func(done, total int)
}

// defaultStart is fixed, so that a replay gives the same figures every day.
var defaultStart = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)

// Run replays conversations under all given profiles and policies. It stops at
// the first trace that cannot be read, and at the first request that the
// handler does not pass on.
func Run(ctx context.Context, conversations []*recording.Conversation, o Options) (*Report, error) {
	profiles, err := o.defaults()
	if err != nil {
		return nil, err
	}
	defer o.scorer.release()
	if _, err := configure(o.Handler); err != nil {
		return nil, err
	}
	var jobs []*drive
	total := 0
	for _, p := range profiles {
		for _, c := range conversations {
			jobs = append(jobs, &drive{conversation: c, profile: p, start: o.Start, summaries: o.Summaries})
			total += c.Calls
		}
	}
	var done atomic.Int64
	progress := func() {
		if n := done.Add(1); o.Progress != nil {
			o.Progress(int(n), total)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan *drive)
	var workers sync.WaitGroup
	for range o.Workers {
		workers.Go(func() {
			for d := range queue {
				d.progress = progress
				if err := d.replay(ctx, &o); err != nil {
					cancel(fmt.Errorf("%s, profile %s: %w", d.conversation.Name, d.profile.Name, err))
				}
			}
		})
	}
	for _, d := range slices.SortedStableFunc(slices.Values(jobs), longestFirst) {
		queue <- d
	}
	close(queue)
	workers.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return newReport(jobs, profiles, o.Policies), nil
}

// Bench replays conversations one by one, each with a profile of its own.
type Bench struct{ o Options }

// NewBench makes a bench of options, of which it takes the first policy. It is to be closed.
func NewBench(o Options) (*Bench, error) {
	if _, err := o.defaults(); err != nil {
		return nil, err
	}
	if _, err := configure(o.Handler); err != nil {
		return nil, err
	}
	return &Bench{o}, nil
}

// Replay replays a conversation and calls progress after each of its requests.
func (b *Bench) Replay(ctx context.Context, c *recording.Conversation, p pricing.Profile, progress func()) (*Result, error) {
	d := &drive{conversation: c, profile: p, start: b.o.Start, summaries: b.o.Summaries, progress: progress}
	if err := d.replay(ctx, &b.o); err != nil {
		return nil, err
	}
	if len(d.results) == 0 {
		return nil, context.Cause(ctx)
	}
	return &d.results[0], nil
}

// Close lets go of what the conversations share.
func (b *Bench) Close() { b.o.scorer.release() }

// longestFirst keeps all workers busy to the end.
func longestFirst(a, b *drive) int { return cmp.Compare(b.conversation.Calls, a.conversation.Calls) }

func (o *Options) defaults() ([]pricing.Profile, error) {
	o.scorer = new(scorer)
	if len(o.Policies) == 0 {
		o.Policies = []pipeline.Policy{pipeline.CostAware}
	}
	if len(o.Profiles) == 0 {
		o.Profiles = pricing.Profiles()[:1]
	}
	if o.Start.IsZero() {
		o.Start = defaultStart
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	profiles := make([]pricing.Profile, 0, len(o.Profiles))
	for _, name := range o.Profiles {
		p, err := pricing.ProfileByName(name)
		if err != nil {
			return nil, err
		}
		p.Prices = o.Prices
		profiles = append(profiles, p)
	}
	return profiles, nil
}

// replay runs a drive and frees what its arms hold.
func (d *drive) replay(ctx context.Context, o *Options) (err error) {
	if ctx.Err() != nil {
		return nil // another one has failed already
	}
	defer func() {
		for _, a := range d.arms {
			if a.holds { // connections
				err = errors.Join(err, a.handler.Cleanup())
			}
			err = errors.Join(err, a.store.Close())
		}
		d.arms = nil
	}()
	own := *o
	own.need = pipeline.DefaultNeed
	if o.Need != nil {
		if own.need, err = o.Need(d.conversation); err != nil {
			return err
		}
	}
	d.asked = o.Asked
	for _, policy := range o.Policies {
		a, err := newArm(policy, d.profile, &own)
		if err != nil {
			return err
		}
		d.arms = append(d.arms, a)
	}
	return d.run(ctx)
}
