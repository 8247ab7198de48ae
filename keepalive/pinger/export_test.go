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

package pinger

import (
	"sync/atomic"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive"
)

var ahead, set atomic.Int64

func init() {
	clock = func() keepalive.Instant {
		now := keepalive.Now().Add(time.Duration(ahead.Load()))
		now.Wall = now.Wall.Add(time.Duration(set.Load()))
		return now
	}
}

// SetCalendar lets the calendar jump by so much, with no time passing.
func SetCalendar(d time.Duration) { set.Add(int64(d)) }

// Advance lets the clock of all keepers jump ahead, as if so much time had passed.
func Advance(d time.Duration) { ahead.Add(int64(d)) }

// Awake has the keeper look at the clock.
func (k *Keeper) Awake() { k.awake() }

// Now is the keeper's time.
func (k *Keeper) Now() time.Duration { return k.now().Mono }
