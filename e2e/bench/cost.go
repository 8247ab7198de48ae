// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/e2e/internal/conversation"
)

// side is how many conversations grow side by side in the cost table.
const side = 4

// cost measures the processor time of a request and how long it takes, one
// request at a time, in conversations that the proxy knows. The requests that
// begin one, at the lower end of the band, have a column of their own.
func (b *bench) cost(ctx context.Context) error {
	heading("Cost of one request, in ms", "traffic", "Caddy", "CPU", "added CPU", "added CPU, first request", "time p50", "time p99")
	for i := range b.loads {
		talks := make([]*talks, len(b.targets))
		tape, key := b.newTape(&b.loads[i])
		for j, t := range b.targets {
			c, err := dial(t)
			if err != nil {
				return err
			}
			defer c.close()
			talks[j] = newTalks(c, &b.loads[i], tape, key)
		}
		sums := make([]costs, len(b.targets))
		for round := range b.rounds + 1 {
			for j := range talks {
				c, err := talks[j].round(ctx)
				if err != nil {
					return fmt.Errorf("%s: %s: %w", b.loads[i].name, b.targets[j].name, err)
				}
				if round > 0 { // the first warms up
					sums[j].add(c)
				}
			}
		}
		for j, t := range b.targets {
			added, first := "", ""
			if j > 0 {
				added = ms(median(differences(sums[j].known, sums[0].known)))
				first = ms(median(differences(sums[j].first, sums[0].first)))
			}
			row(b.loads[i].name, t.name, ms(median(sums[j].known)), added, first, ms(quantile(sums[j].times, 0.5)), ms(quantile(sums[j].times, 0.99)))
		}
	}
	return nil
}

// costs are processor times per request, one a round, and how long each of the
// requests took.
type costs struct{ known, first, times []time.Duration }

func (c *costs) add(o costs) {
	c.known, c.first, c.times = append(c.known, o.known...), append(c.first, o.first...), append(c.times, o.times...)
}

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

// round grows conversations through the band until the load's requests are made.
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
	return c, nil
}
