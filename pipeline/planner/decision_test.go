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
