// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package trial replays recorded conversations of coding agents through the real handler, on a
// virtual clock, to a simulated provider. It reports costs and savings against the client's own
// bytes, and harmed edits.
//
// A [recording.Conversation] is a recorded session. Its requests are built like those of the
// agents, byte-stable. Each request goes through the handler to a simulated provider, which returns
// the recorded answer, and directly to a second one, for the baseline.
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

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
)

// Policies are all policies, the mildest first.
var Policies = []pipeline.Policy{pipeline.Off, pipeline.Observe, pipeline.Eager, pipeline.CostAware}

// Options configure a replay.
type Options struct {
	// Profiles are the names of the simulated providers, see [pricing.Profiles]. Default: the first one.
	Profiles []string
	// Policies are the policies to compare. Default: cost_aware.
	Policies []pipeline.Policy
	// Handler holds further options of the handler in JSON, as in a Caddy
	// configuration. The policy in it is overridden.
	Handler []byte
	// KeepAlive enables pings in pauses, with the handler's options or defaults.
	KeepAlive bool
	// Threads makes the client keep its conversation in a thread, if the provider has threads, and
	// send new messages only.
	Threads bool
	// Summaries makes Codex request a summary, without its tools, before each compaction:
	// recordings leave these requests out.
	Summaries bool
	// Background, if positive, enables idle folding, with the handler's options or defaults. It is
	// the speed of the local server at reading prompts, in tokens a second.
	Background float64
	// Expanding makes the simulated model restore folded text by the expand tool before an answer
	// that quotes it. The restores are part of the cost.
	Expanding bool
	// scorer compresses texts, if the handler's options enable it.
	scorer *scorer
	// Need, if set, returns the need model for a conversation.
	Need func(*recording.Conversation) (*pipeline.NeedModel, error)
	// Harm, if set, is the planner's price of harm.
	Harm *planner.Harm
	// need and record are those of the conversation at hand.
	need   *pipeline.NeedModel
	record func(*audit.Record)
	// Change, if set, returns the body that the client sends in place of a request's, by the number of
	// the request in its conversation, from 0 on.
	Change func(c *recording.Conversation, p *pricing.Profile, number int, body []byte) ([]byte, error)
	// Asked, if set, receives each request as the client sends it, on the goroutine of its conversation.
	Asked func(*Asked)
	// Watch, if set, receives each finished request, on the goroutine of its conversation.
	Watch func(*Watched)
	// Record, if set, receives the audit record of each turn, from several goroutines.
	Record func(*recording.Conversation, *audit.Record)
	// Prices are the prices of models. Default: the built-in table.
	Prices *pricing.Table
	// assumed, if set, are the prices that the handler has in place of the provider's.
	assumed *pricing.Table
	// Start is the beginning of the conversations, which prices depend on. Default: 2026-11-20
	// 00:00 UTC.
	Start time.Time
	// Workers is the number of conversations replayed concurrently. Default: GOMAXPROCS.
	Workers int
	// Progress, if set, receives the number of requests replayed so far, from several goroutines.
	Progress func(done, total int)
}

// defaultStart is fixed, so that replays are reproducible.
var defaultStart = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)

// Run replays conversations under all given profiles and policies. It stops at the first unreadable
// trace, and at the first request that the handler does not forward.
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

// Bench replays conversations one by one, each with its own profile.
type Bench struct{ o Options }

// NewBench returns a bench for options, with their first policy. The caller must close it.
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
func (b *Bench) Replay(
	ctx context.Context, c *recording.Conversation, p pricing.Profile, progress func(),
) (*Result, error) {
	d := &drive{conversation: c, profile: p, start: b.o.Start, summaries: b.o.Summaries, progress: progress}
	if err := d.replay(ctx, &b.o); err != nil {
		return nil, err
	}
	if len(d.results) == 0 {
		return nil, context.Cause(ctx)
	}
	return &d.results[0], nil
}

// Close releases the shared compressor.
func (b *Bench) Close() { b.o.scorer.release() }

// longestFirst orders drives so that all workers stay busy to the end.
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

func (d *drive) replay(ctx context.Context, o *Options) (err error) {
	if ctx.Err() != nil {
		return nil // another drive has failed
	}
	defer func() {
		for _, a := range d.arms {
			if a.retains { // connections
				err = errors.Join(err, a.handler.Cleanup())
			}
			if a.sink != nil {
				err = errors.Join(err, a.sink.Close())
			}
			err = errors.Join(err, a.state.Close())
		}
		d.arms = nil
	}()
	options := *o
	options.need = pipeline.DefaultNeed
	if o.Need != nil {
		if options.need, err = o.Need(d.conversation); err != nil {
			return err
		}
	}
	d.asked, d.change = o.Asked, o.Change
	if o.Record != nil {
		options.record = func(r *audit.Record) { o.Record(d.conversation, r) }
	}
	for _, policy := range o.Policies {
		a, err := newArm(policy, d.profile, &options)
		if err != nil {
			return err
		}
		d.arms = append(d.arms, a)
	}
	return d.run(ctx)
}
