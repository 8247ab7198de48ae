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

package origin

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/hold"
)

// Bodies and sessions that nobody goes on from are gone when their time is over.
func TestKeptNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(hold.Limits{Memory: 1 << 20, Life: time.Hour}, time.Now)
		s.put(conversation{name: "a"}, make([]byte, 1000))
		s.goOn(conversation{name: "b"}, &talk{body: make([]byte, 1000)})
		time.Sleep(time.Hour)
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if n := s.kept.Len(); n > 0 {
			t.Errorf("%d are kept", n)
		}
	})
}
