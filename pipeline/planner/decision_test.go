// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"math"
	"testing"
)

func TestDecisionString(t *testing.T) {
	for want, d := range map[string]Decision{
		`epoch=none; candidates=3; folded=0; removed=0; rewritten=12; further=2; gain=-17; reason="no \"gain\""`: {Epoch: NoEpoch, Reason: `no "gain"`, Candidates: 3, Rewritten: 12, Further: 2.4, Gain: -16.5001},
		`epoch=cold; candidates=0; folded=5; removed=900; rewritten=0; further=100000000; gain=+Inf`:             {Epoch: Cold, Folded: 5, Removed: 900, Further: 1e8, Gain: math.Inf(1)},
	} {
		if got := d.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
