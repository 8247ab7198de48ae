// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import "sync"

// Loan is temporary access to memory that is valid only while its owner waits.
type Loan struct {
	mu   sync.Mutex
	over bool
}

// Use runs f while the loan is valid. It returns false, without running f, after the end.
func (l *Loan) Use(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	f()
	return true
}

// End waits for a running Use and prevents further ones.
func (l *Loan) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
}
