// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package keepalive

import (
	"math"
	"testing"
)

// The long lifetime is preferred only for a tenant for whom it would have been cheaper.
func TestTiers(t *testing.T) {
	var tiers Tiers
	away, busy := [16]byte{1}, [16]byte{2}
	at := Usage{Write: 1.25, WriteLong: 2, Read: 0.1}
	for i := range 30 {
		u := at
		if u.New = 1000; i%5 == 4 { // away for half an hour
			u.New, u.Anew, u.Pings = 0, 100_000, 30_000
		}
		tiers.Add(away, u)
		u = at
		u.New = 1000
		tiers.Add(busy, u)
		if i == 10 && tiers.Long(away) {
			t.Error("eleven requests were enough")
		}
	}
	if !tiers.Long(away) || tiers.Long(busy) || tiers.Long([16]byte{3}) {
		t.Errorf("long for %v, %v and one that is not known", tiers.Long(away), tiers.Long(busy))
	}
	// 6 pauses with their pings and the price of writing, against 24 000 and 30 000 new tokens.
	if r, want := tiers.Report(), 6*(30_000+100_000*1.15)-54_000*0.75; r.Requests != 60 || math.Abs(r.Gain-want) > 1 {
		t.Errorf("the comparison came to %+v, want a gain of %.0f", r, want)
	}
}
