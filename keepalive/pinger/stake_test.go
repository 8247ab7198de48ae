// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"math"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// Without returns, pings make no conversation dearer than its client's own bytes by more than the
// limit. They spend savings up to the share and no further. An operator's setting alone counts.
func TestStake(t *testing.T) {
	share := 0.2
	for name, c := range map[string]struct {
		options Options
		idle    pipeline.Idle
		stake   float64
	}{
		"nothing saved":          {idle: pipeline.Idle{Spent: 1000}, stake: 40},
		"something saved":        {idle: pipeline.Idle{Spent: 1000, Saved: 50}, stake: 92},
		"much saved: the share":  {idle: pipeline.Idle{Spent: 1000, Saved: 500}, stake: 100},
		"pings have paid":        {idle: pipeline.Idle{Spent: 1000, Saved: 500, Kept: 200}, stake: 300},
		"pings have lost":        {idle: pipeline.Idle{Spent: 1000, Saved: 50, Kept: -40}, stake: 52},
		"dearer than without us": {idle: pipeline.Idle{Spent: 1000, Saved: -30}, stake: 8.8},
		"a share of one's own":   {Options{Stake: &share}, pipeline.Idle{Spent: 1000, Saved: -30, Kept: -40}, 160},
	} {
		if got := c.options.stake(&c.idle); math.Abs(got-c.stake) > 1e-9 {
			t.Errorf("%s: %g, not %g", name, got, c.stake)
		}
	}
}
