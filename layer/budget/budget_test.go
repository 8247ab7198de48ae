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

package budget

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/layer"
)

// TestBudgetKeepsOrder: room is given in the order in which it was asked for, and to
// small bodies out of what is kept for them.
func TestBudgetKeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mib = 1 << 20
		b := New(80 * mib) // 70 for all, 10 for small ones
		first := b.Open()
		if err := first.Grow(t.Context(), 60*mib); err != nil {
			t.Fatal(err)
		}
		served := make(chan string, 8)
		ask := func(name string, n int64) *Share {
			s := b.Open()
			go func() {
				if s.Grow(t.Context(), n) == nil {
					served <- name
				}
			}()
			synctest.Wait()
			return s
		}
		ask("large", 50*mib)
		ask("next", 9*mib) // would fit, but is not its turn
		small := ask("small", 4*mib)
		ask("another", 4*mib)
		ask("third", 4*mib) // waits
		expect := func(names ...string) {
			t.Helper()
			synctest.Wait()
			if len(served) != len(names) {
				t.Fatalf("%d were served, not %q", len(served), names)
			}
			for range names {
				if name := <-served; !slices.Contains(names, name) {
					t.Errorf("%s was served, not %q", name, names)
				}
			}
		}
		expect("small", "another")
		small.Close()
		expect("third")
		first.Close()
		expect("large", "next")
		if n := b.Held(); n != (50+9+4+4)*mib {
			t.Errorf("%d bytes held", n)
		}
	})
}

// TestBudgetEndsWaits: nobody waits for ever, and who leaves is not in the way.
func TestBudgetEndsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(80 << 20)
		all := b.Open()
		if err := all.Grow(t.Context(), 1<<40); err != nil { // more than there is, but alone
			t.Fatal(err)
		}
		start := time.Now()
		if err := b.Open().Grow(t.Context(), 5<<20); !errors.Is(err, layer.ErrNoRoom) || time.Since(start) != Patience {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithCancel(t.Context())
		left, got := make(chan error), make(chan error)
		go func() { left <- b.Open().Grow(ctx, 5<<20) }()
		synctest.Wait()
		go func() { got <- b.Open().Grow(t.Context(), 6<<20) }()
		synctest.Wait()
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		all.Close()
		if err := <-got; err != nil {
			t.Error(err)
		}
		if n := b.Held(); n != 6<<20 || b.waiting.Len() != 0 {
			t.Errorf("%d bytes held, %d wait", n, b.waiting.Len())
		}
	})
}

// TestBudgetTakesBackPromises: a body that was announced and does not come holds what
// has come.
func TestBudgetTakesBackPromises(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(80 << 20)
		liar, honest := b.Open(), b.Open()
		liar.Read()
		liar.Progress(1 << 20)
		if err := liar.Grow(t.Context(), 70<<20); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := honest.Grow(t.Context(), 69<<20); err != nil || time.Since(start) >= 2*stall+1 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if err := liar.Grow(t.Context(), 70<<20); !errors.Is(err, layer.ErrNoRoom) {
			t.Errorf("the liar goes on: %v", err)
		}
		liar.Arrived()
		liar.Close()
		honest.Close()
		if n := b.Held(); n != 0 || len(b.reading) != 0 {
			t.Errorf("%d bytes held, %d are read", n, len(b.reading))
		}
		time.Sleep(2 * lull) // what is given back
	})
}
