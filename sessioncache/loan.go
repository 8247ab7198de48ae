// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

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
