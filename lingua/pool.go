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

package lingua

import "sync"

// pool shares work among a number of goroutines.
type pool struct{ threads int }

// each calls f with parts of the numbers below n, and with the number of the
// goroutine, which is below that of threads, and returns when all of them
// are done.
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
	f(0, 0, n/threads)
	wg.Wait()
}
