// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// connections is the number of concurrent connections.
const connections = 8

// course configures a race.
type course struct {
	// turns is the number of times in a round that the Caddys take turns, so that changes of the
	// machine's speed affect all of them.
	turns int
	// volume is a Caddy's work in a round, in multiples of a load's requests.
	volume int
}

// fairTurns are short compared with changes of a machine's speed.
var fairTurns = course{turns: 6, volume: 4}

// throughput measures requests a second with all connections busy, in conversations that have begun
// before: agents continue a conversation for hundreds of requests.
func (b *bench) throughput(ctx context.Context) error {
	return b.race(ctx, fmt.Sprintf("Throughput, %d connections", connections), "ratio to bare", b.targets, fairTurns)
}

// race prints the throughput of several Caddys, its ratio to that of the first, and the processor
// time of a Caddy for a request.
func (b *bench) race(ctx context.Context, title, ratioTo string, targets []*target, c course) error {
	heading(title, "traffic", "Caddy", "requests/s", ratioTo, "Caddy's processor, µs")
	for i := range b.loads {
		lanes, err := b.run(ctx, &b.loads[i], targets, c)
		if err != nil {
			return err
		}
		for j, t := range targets {
			ratio := ""
			if j > 0 {
				ratio = within(ratios(lanes[j].rates, lanes[0].rates))
			}
			row(b.loads[i].name, t.name, fmt.Sprintf("%.0f", median(lanes[j].rates)), ratio,
				fmt.Sprintf("%.0f", median(lanes[j].costs)))
		}
	}
	return nil
}

// lane is the result of one Caddy in a race: requests a second and processor time per request in
// microseconds, by rounds.
type lane struct{ rates, costs []float64 }

// run measures several Caddys in turns under a load.
func (b *bench) run(ctx context.Context, l *load, targets []*target, c course) ([]lane, error) {
	tape, key := b.newTape(l)
	each := max(1, l.requests*c.volume/connections/c.turns/(tape.TurnsOf(l.to)-tape.TurnsOf(l.from)))
	lanes := make([]lane, len(targets))
	for round := range b.rounds + 1 {
		sums := make([]pace, len(targets))
		for slice := range c.turns {
			for j, t := range targets {
				p, err := storm(ctx, t, func(c *client, n int) []*talk {
					talks := make([]*talk, each)
					for k := range talks {
						talks[k] = newTalk(c, l, tape, key, fmt.Sprintf("%s busy %d.%d.%d.%d", l.name, round, slice, n, k))
					}
					return talks
				})
				if err != nil {
					return nil, fmt.Errorf("%s: %s: %w", l.name, t.name, err)
				}
				sums[j].requests += p.requests
				sums[j].took += p.took
				sums[j].cpu += p.cpu
			}
		}
		if round > 0 { // the first round warms up
			for j := range sums {
				lanes[j].rates = append(lanes[j].rates, sums[j].rate())
				lanes[j].costs = append(lanes[j].costs, sums[j].cost())
			}
		}
	}
	return lanes, nil
}

// pace is a number of requests, their duration, and the Caddy's processor time for them.
type pace struct {
	requests  int64
	took, cpu time.Duration
}

// rate returns the requests a second.
func (p pace) rate() float64 { return float64(p.requests) / p.took.Seconds() }

// cost returns the processor time of a request in microseconds.
func (p pace) cost() float64 { return float64(p.cpu.Microseconds()) / float64(p.requests) }

// storm runs the conversations of all connections concurrently, one after another on each, to their
// ends.
func storm(ctx context.Context, t *target, talksOf func(c *client, n int) []*talk) (pace, error) {
	fleet := make([][]*talk, connections)
	for i := range fleet {
		c, err := dial(t)
		if err != nil {
			return pace{}, err
		}
		defer c.close()
		fleet[i] = talksOf(c, i)
		for _, k := range fleet[i] {
			if err := k.next(); err != nil {
				return pace{}, err
			}
		}
	}
	var (
		wg    sync.WaitGroup
		count atomic.Int64
	)
	errs := make([]error, len(fleet), len(fleet)+1)
	var took time.Duration
	cpu, err := t.cpu(func() error {
		start := time.Now()
		defer func() { took = time.Since(start) }()
		for i, talks := range fleet {
			wg.Go(func() {
				for _, k := range talks {
					for !k.begins() && ctx.Err() == nil {
						if errs[i] = k.next(); errs[i] != nil {
							return
						}
						count.Add(1)
					}
				}
			})
		}
		wg.Wait()
		return errors.Join(append(errs, ctx.Err())...)
	})
	if err != nil {
		return pace{}, err
	}
	return pace{count.Load(), took, cpu}, nil
}
