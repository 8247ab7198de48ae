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
	"time"
)

// Sweep forgets what has run out although nobody asks any more: prompts stay in memory no
// longer than they may. The zero value is ready to use.
type Sweep struct{ set bool }

// In has expire called after some time, unless that is set already. It is called with the
// lock held, as expire will be, which says after what time to call it again: 0 for never.
func (s *Sweep) In(d time.Duration, lock sync.Locker, expire func() time.Duration) {
	if s.set {
		return
	}
	s.set = true
	time.AfterFunc(d, func() {
		lock.Lock()
		defer lock.Unlock()
		s.set = false
		if next := expire(); next > 0 {
			s.In(next, lock, expire)
		}
	})
}
