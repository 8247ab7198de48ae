// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import "sync"

// pool divides work among goroutines.
type pool struct{ threads int }

// each calls f with ranges that cover the numbers below n, and with the number of the goroutine,
// which is below threads. It returns once all calls have.
func (p *pool) each(n int, f func(worker, from, to int)) {
	threads := min(p.threads, n)
	if threads <= 1 {
		f(0, 0, n)
		return
	}
	var wg sync.WaitGroup
	for i := 1; i < threads; i++ {
		wg.Go(func() { f(i, n*i/threads, n*(i+1)/threads) })
	}
	// The calling goroutine does the first part.
	f(0, 0, n/threads)
	wg.Wait()
}
