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

package hold

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// What is used again stays, and what is not goes when its time is over, although nobody asks.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			s     Sweep
			mu    sync.Mutex
			until time.Time
		)
		expire := func() time.Duration {
			if left := time.Until(until); left > 0 {
				return left
			}
			until = time.Time{}
			return 0
		}
		kept := func() bool {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return !until.IsZero()
		}
		keep := func() {
			mu.Lock()
			defer mu.Unlock()
			until = time.Now().Add(time.Hour)
			s.In(time.Hour, &mu, expire)
		}
		for range 2 { // it works more than once
			keep()
			time.Sleep(30 * time.Minute)
			keep()
			if time.Sleep(59 * time.Minute); !kept() {
				t.Error("what was used is gone")
			}
			if time.Sleep(time.Minute); kept() {
				t.Error("what nobody has used stays")
			}
		}
	})
}

// An engine that nobody asks any more, as after a reload with other bounds, comes to hold
// nothing.
func TestHeldNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(nil, Limits{Memory: 1 << 20, Life: time.Hour}, time.Now)
		(&Turn{engine: e, Request: new(Request)}).put(new(Base))
		time.Sleep(time.Hour)
		synctest.Wait()
		e.mu.Lock()
		defer e.mu.Unlock()
		if n := e.held.Len(); n > 0 {
			t.Errorf("%d are held", n)
		}
	})
}
