// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/conversation"
)

// side is the number of conversations that grow side by side in the cost table.
const side = 4

// settled is the body size from which the background work of first requests is awaited. Otherwise
// the few known requests after them would be charged with it.
const settled = 100 << 10

// cost measures the processor time and duration of a request, one request at a time, in
// conversations known to the proxy. The first requests of conversations, at the lower end of the
// band, have a separate column.
func (b *bench) cost(ctx context.Context) error {
	heading("Cost of one request, in ms", "traffic", "Caddy", "CPU", "added CPU", "added CPU, first request", "time p50",
		"time p99", "p99, ratio to bare")
	for i := range b.loads {
		l := &b.loads[i]
		sums, err := b.costs(ctx, l, b.targets, nil)
		if err != nil {
			return err
		}
		for j, t := range b.targets {
			added, first, late := "", "", ""
			if j > 0 {
				added = sums[j].added(&sums[0])
				first = spread("%.3f", inMS(differences(sums[j].first, sums[0].first)))
				late = within(ratios(sums[j].late, sums[0].late))
			}
			row(l.name, t.name, ms(median(sums[j].known)), added, first, ms(quantile(sums[j].times, 0.5)),
				ms(quantile(sums[j].times, 0.99)), late)
		}
	}
	return nil
}

// costs measures several Caddys in turns under a load, one request at a time. each, if set, is
// called for the conversations before they begin.
func (b *bench) costs(ctx context.Context, l *load, targets []*target, each func(*talk)) ([]costs, error) {
	all := make([]*talks, len(targets))
	tape, key := b.newTape(l)
	for j, t := range targets {
		c, err := dial(t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
		defer c.close()
		all[j] = newTalks(c, l, tape, key)
		if each != nil {
			for _, k := range all[j].all {
				each(k)
			}
		}
	}
	sums := make([]costs, len(targets))
	for round := range b.rounds + 1 {
		for j := range all {
			c, err := all[j].round(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", l.name, targets[j].name, err)
			}
			if round > 0 { // the first round warms up
				sums[j].add(&c)
			}
		}
	}
	return sums, nil
}

// costs are processor times per request and durations of the slowest hundredth, one a round, and
// the duration of each known request.
type costs struct{ known, first, late, times []time.Duration }

func (c *costs) add(o *costs) {
	c.known, c.first = append(c.known, o.known...), append(c.first, o.first...)
	c.late, c.times = append(c.late, o.late...), append(c.times, o.times...)
}

// added returns the additional costs of known requests over those of o, in ms.
func (c *costs) added(o *costs) string { return spread("%.3f", inMS(differences(c.known, o.known))) }

// talks are conversations with one target that grow in step.
type talks struct {
	target *target
	load   *load
	all    []*talk
}

func newTalks(c *client, l *load, tape *conversation.Tape, key string) *talks {
	t := &talks{target: c.target, load: l}
	for i := range side {
		t.all = append(t.all, newTalk(c, l, tape, key, fmt.Sprintf("%s %d", l.name, i)))
	}
	return t
}

// round grows conversations through the band until the load's number of requests is reached.
func (t *talks) round(ctx context.Context) (costs, error) {
	var (
		c                  costs
		nKnown, nFirst     int
		cpuKnown, cpuFirst time.Duration
	)
	for nKnown < t.load.requests {
		used, err := t.target.cpu(func() error {
			for _, k := range t.all {
				if err := k.next(); err != nil {
					return err
				}
				nFirst++
			}
			return nil
		})
		if err != nil {
			return c, err
		}
		cpuFirst += used
		if t.load.to >= settled {
			used, err := t.target.waitIdle(ctx)
			if err != nil {
				return c, err
			}
			cpuFirst += used
		}
		used, err = t.target.cpu(func() error {
			for !t.all[0].begins() && ctx.Err() == nil {
				for _, k := range t.all {
					start := time.Now()
					if err := k.next(); err != nil {
						return err
					}
					c.times = append(c.times, time.Since(start))
					nKnown++
				}
			}
			return ctx.Err()
		})
		if err != nil {
			return c, err
		}
		cpuKnown += used
	}
	c.known, c.first = []time.Duration{cpuKnown / time.Duration(nKnown)}, []time.Duration{cpuFirst / time.Duration(nFirst)}
	c.late = []time.Duration{quantile(c.times, 0.99)}
	return c, nil
}
