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

package handler

import (
	"sync/atomic"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
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

// Advance lets the clock of all keepers jump ahead, as if so much time had
// passed, and has them look at it.
func Advance(d time.Duration) {
	ahead.Add(int64(d))
	for _, s := range openStores() {
		s.keeper.awake()
	}
}

// Settled waits until nothing is due and nothing in flight, and returns what the
// keepers have come to.
func Settled() (sum KeepAliveReport) {
	for {
		busy := false
		for _, s := range openStores() {
			// Asked for both before and after what flies: what is due takes off in
			// between, or waits for another to land.
			before, was := s.keeper.schedule.Next()
			sum = s.keeper.report()
			after, is := s.keeper.schedule.Next()
			now := s.keeper.now().Mono
			busy = busy || sum.Schedule.Flying > 0 || was && before <= now || is && after <= now
		}
		if !busy {
			return sum
		}
		time.Sleep(time.Millisecond)
	}
}

// Learned is what the keeper of the open store has learned.
func Learned() *keepalive.Learned {
	for _, s := range openStores() {
		return &s.keeper.schedule.Learned
	}
	return nil
}

// Hashed is a client's name as a habit holds it.
func Hashed(name string) uint64 { return hashed(name) }

// LoadIdle lets each box find that nobody has asked it for as long as it takes
// until its model is to be kept loaded.
func LoadIdle() {
	for _, s := range openStores() {
		s.boxes.Range(func(_, x any) bool {
			x.(*warmer).load()
			return true
		})
	}
}

// Sessions are the ids of all sessions.
func Sessions() (ids []string) {
	for _, s := range openStores() {
		for _, session := range s.Page(sessioncache.Newest, 1000) {
			ids = append(ids, session.ID())
		}
	}
	return ids
}
