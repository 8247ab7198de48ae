// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

var (
	errBefore = errors.New("no -before is given: the Caddy to compare with")
	errRounds = errors.New("too few -rounds for an interval")
	errSlower = errors.New("slower than before by more than the margin")
)

// judged is the minimum of rounds for a confidence interval: fewer rounds yield only their
// extremes.
const judged = 6

// regress compares the binary with an older one, both against bare, in one race for each policy. It
// returns an error if the throughput has fallen under any load.
func (b *bench) regress(ctx context.Context) error {
	if b.before == "" {
		return errBefore
	}
	if b.rounds < judged {
		return fmt.Errorf("%w: %d, and %d are needed", errRounds, b.rounds, judged)
	}
	before, err := filepath.Abs(b.before)
	if err != nil {
		return err
	}
	heading(fmt.Sprintf("Throughput, %d connections, before and now", connections), "traffic", "Caddy", "requests/s",
		"ratio to bare", "Caddy's processor, µs", "now / before")
	var fallen []string
	for i, policy := range b.policies {
		old, err := startTarget(ctx, before, filepath.Join(b.dir, fmt.Sprint("before ", i)), policy, "", b.upstream.addr)
		if err != nil {
			return err
		}
		defer old.stop()
		old.name = policy + ", before"
		targets := []*target{b.targets[0], old, b.targets[i+1]}
		for j := range b.loads {
			l := &b.loads[j]
			lanes, err := b.run(ctx, l, targets, fairTurns)
			if err != nil {
				return err
			}
			change := ratios(lanes[2].rates, lanes[1].rates)
			for k, t := range targets {
				ratio, now := "", ""
				if k > 0 {
					ratio = within(ratios(lanes[k].rates, lanes[0].rates))
				}
				if k == 2 {
					now = spread("%.3f", change)
				}
				row(l.name, t.name, fmt.Sprintf("%.0f", median(lanes[k].rates)), ratio, fmt.Sprintf("%.0f", median(lanes[k].costs)),
					now)
			}
			if slower(change, b.margin) {
				fallen = append(fallen, fmt.Sprintf("%s under %s: %s", l.name, policy, spread("%.3f", change)))
			}
		}
	}
	if len(fallen) > 0 {
		return fmt.Errorf("%w of %g: %s", errSlower, b.margin, strings.Join(fallen, "; "))
	}
	return nil
}

// slower reports whether ratios of now to before, one a round, are below the margin even at the
// favourable end of their interval. With too few rounds it returns false.
func slower(change []float64, margin float64) bool {
	_, high := interval(change)
	return len(change) >= judged && high < 1-margin
}
