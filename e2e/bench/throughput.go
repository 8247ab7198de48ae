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
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Concurrent load: so many connections, each with conversations of its own, for
// so long.
const (
	connections = 8
	spell       = 2 * time.Second
)

// throughput measures requests a second with all connections busy. Requests
// that begin a conversation count like the others.
func (b *bench) throughput(ctx context.Context) error {
	heading(fmt.Sprintf("Throughput, %d connections", connections), "traffic", "Caddy", "requests/s", "ratio to bare")
	for i := range b.loads {
		l := &b.loads[i]
		tape, key := b.newTape(l)
		rates := make([][]float64, len(b.targets))
		for round := range b.rounds + 1 {
			for j, t := range b.targets {
				var fleet []*talk
				for n := range connections {
					c, err := dial(t)
					if err != nil {
						return err
					}
					defer c.close()
					fleet = append(fleet, newTalk(c, l, tape, key, fmt.Sprintf("%s busy %d.%d", l.name, round, n)))
				}
				rate, err := storm(ctx, fleet)
				if err != nil {
					return fmt.Errorf("%s: %s: %w", l.name, t.name, err)
				}
				if round > 0 { // the first warms up
					rates[j] = append(rates[j], rate)
				}
			}
		}
		for j, t := range b.targets {
			ratios := make([]float64, b.rounds)
			for r := range ratios {
				ratios[r] = rates[j][r] / rates[0][r]
			}
			ratio := ""
			if j > 0 {
				ratio = fmt.Sprintf("%.2f", median(ratios))
			}
			row(l.name, t.name, fmt.Sprintf("%.0f", median(rates[j])), ratio)
		}
	}
	return nil
}

// storm lets all talk for a spell and returns the requests a second.
func storm(ctx context.Context, fleet []*talk) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, spell)
	defer cancel()
	var (
		wg    sync.WaitGroup
		count atomic.Int64
	)
	errs := make([]error, len(fleet))
	start := time.Now()
	for i, k := range fleet {
		wg.Go(func() {
			for ctx.Err() == nil {
				if errs[i] = k.next(); errs[i] != nil {
					cancel()
					return
				}
				count.Add(1)
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	return float64(count.Load()) / took.Seconds(), nil
}
