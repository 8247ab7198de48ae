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
		maxLoss float64
	}{
		"nothing saved":          {idle: pipeline.Idle{Spent: 1000}, maxLoss: 20},
		"something saved":        {idle: pipeline.Idle{Spent: 1000, Saved: 50}, maxLoss: 71},
		"much saved: the share":  {idle: pipeline.Idle{Spent: 1000, Saved: 500}, maxLoss: 100},
		"pings have paid":        {idle: pipeline.Idle{Spent: 1000, Saved: 500, Kept: 200}, maxLoss: 300},
		"pings have lost":        {idle: pipeline.Idle{Spent: 1000, Saved: 50, Kept: -40}, maxLoss: 31},
		"dearer than without us": {idle: pipeline.Idle{Spent: 1000, Saved: -10}, maxLoss: 9.8},
		"a share of one's own":   {Options{MaxLoss: &share}, pipeline.Idle{Spent: 1000, Saved: -30, Kept: -40}, 160},
	} {
		if got := c.options.maxLoss(&c.idle); math.Abs(got-c.maxLoss) > 1e-9 {
			t.Errorf("%s: %g, not %g", name, got, c.maxLoss)
		}
	}
}
