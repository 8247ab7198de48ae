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

package breaker

import "sync"

// Loan is of something that is there for as long as somebody waits: what nobody waits for
// any more cannot use it.
type Loan struct {
	mu   sync.Mutex
	over bool
}

// Use does something with it. It reports false if it is too late.
func (l *Loan) Use(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	f()
	return true
}

// End waits for who uses it, and has nobody use it from then on.
func (l *Loan) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
}
