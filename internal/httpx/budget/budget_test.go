// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
)

// TestBudgetKeepsOrder: room is granted in the order of requests, and to small bodies from their
// reserve.
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
		if n := b.Used(); n != (50+9+4+4)*mib {
			t.Errorf("%d bytes held", n)
		}
	})
}

// TestBudgetEndsWaits: every wait ends, and a request that gives up does not block others.
func TestBudgetEndsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(80 << 20)
		all := b.Open()
		if err := all.Grow(t.Context(), 1<<40); err != nil { // more than there is, but alone
			t.Fatal(err)
		}
		start := time.Now()
		if err := b.Open().Grow(t.Context(), 5<<20); !errors.Is(err, httpx.ErrNoRoom) || time.Since(start) != Patience {
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
		if n := b.Used(); n != 6<<20 || b.waiting.Len() != 0 {
			t.Errorf("%d bytes held, %d wait", n, b.waiting.Len())
		}
	})
}

// TestBudgetTakesBackPromises: a body that is announced but does not come has room only for the
// bytes received.
func TestBudgetTakesBackPromises(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(80 << 20)
		liar, honest := b.Open(), b.Open()
		liar.Read(0, nil)
		liar.Progress(1<<20, 1<<20)
		if err := liar.Grow(t.Context(), 70<<20); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := honest.Grow(t.Context(), 69<<20); err != nil || time.Since(start) >= 2*stall+1 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if err := liar.Grow(t.Context(), 70<<20); !errors.Is(err, httpx.ErrNoRoom) {
			t.Errorf("the liar goes on: %v", err)
		}
		liar.Arrived()
		liar.Close()
		honest.Close()
		if n := b.Used(); n != 0 || len(b.reading) != 0 {
			t.Errorf("%d bytes held, %d are read", n, len(b.reading))
		}
		time.Sleep(2 * lull) // returns memory to the system
	})
}

// TestStalledGiveWay: bodies that bring next to nothing end as soon as others need their
// room, those that have stalled for longest first, and no others.
func TestStalledGiveWay(t *testing.T) {
	const mib = 1 << 20
	for _, test := range []struct {
		name  string
		since time.Duration // between two uploads
		drips bool          // a few bytes now and then
		ends  bool          // the server can end them
		need  int64
		wait  bool // until room comes
		gone  int
	}{
		{"small beside fresh uploads", 0, false, true, 1 * mib, false, 0},
		{"small beside stalled uploads", 50 * time.Millisecond, false, true, 1 * mib, false, 0},
		{"large beside stalled uploads", 50 * time.Millisecond, false, true, 10 * mib, false, 10},
		{"large beside dripping uploads", 50 * time.Millisecond, true, true, 10 * mib, false, 10},
		{"very large", 50 * time.Millisecond, false, true, 40 * mib, false, 40},
		{"large beside fresh uploads", 0, false, true, 10 * mib, true, 10},
		{"large beside uploads that cannot be ended", 50 * time.Millisecond, false, false, 10 * mib, true, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := New(80 * mib) // 70 for all, 10 for small ones
			var gone []int
			var all []*Share
			for i := range 70 {
				s := b.Open()
				s.Read(93*mib, func() error {
					if !test.ends {
						return errors.ErrUnsupported
					}
					gone = append(gone, i)
					return nil
				})
				s.Progress(300<<10, mib)
				if err := s.Grow(t.Context(), mib); err != nil {
					t.Fatalf("%s: %v", test.name, err)
				}
				all = append(all, s)
				time.Sleep(test.since)
				if test.drips {
					for _, s := range all {
						s.Progress(300<<10+int64(i), mib)
					}
				}
			}
			start := time.Now()
			honest := b.Open()
			err := honest.Grow(t.Context(), test.need)
			if waited := time.Since(start); (waited > 0) != test.wait || (err != nil) != (test.wait && test.gone == 0) {
				t.Errorf("%s: %v after %v", test.name, err, waited)
			}
			want := make([]int, 0, test.gone)
			for i := range test.gone {
				want = append(want, i)
			}
			if slices.Sort(gone); len(gone) != len(want) || test.since > 0 && !slices.Equal(gone, want) {
				t.Errorf("%s: %v gave way, want %v", test.name, gone, want)
			}
			for i, s := range all {
				if ended := slices.Contains(gone, i); s.Arrived() != ended {
					t.Errorf("%s: upload %d: gave way %t, want %t", test.name, i, !ended, ended)
				}
				if slices.Contains(gone, i) && !errors.Is(s.Grow(t.Context(), 2*mib), ErrStalled) {
					t.Errorf("%s: upload %d goes on", test.name, i)
				}
				s.Close()
			}
			honest.Close()
			if n := b.Used(); n != 0 || len(b.owned) != 0 || b.waiting.Len() != 0 {
				t.Errorf("%s: %d bytes held, owners %v, %d wait", test.name, n, b.owned, b.waiting.Len())
			}
		})
	}
}

// TestOneOwnerLeavesRoom: neither an address nor a tenant takes all room, and its waiting requests
// block no other owner. Alone it may take all room.
func TestOneOwnerLeavesRoom(t *testing.T) {
	const mib = 1 << 20
	here, there := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	one, other := [16]byte{1}, [16]byte{2}
	for name, owners := range map[string]struct{ greedy, honest Owner }{
		"address": {Owner{here, one}, Owner{there, other}},
		"tenant":  {Owner{Tenant: one}, Owner{Tenant: other}},
		"both":    {Owner{here, one}, Owner{here, other}},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := New(80 * mib)
			var greedy []*Share
			for range 10 {
				s := b.Open()
				s.Owner = owners.greedy
				go func() { _ = s.Grow(t.Context(), 10*mib) }() // fails for those that come last
				synctest.Wait()
				greedy = append(greedy, s)
			}
			if n := b.Used(); n != 50*mib {
				t.Errorf("%s: the greedy one holds %d MiB, want 50", name, n/mib)
			}
			honest := b.Open()
			honest.Owner = owners.honest
			start := time.Now()
			err := honest.Grow(t.Context(), 15*mib)
			if blocked := name == "both"; (time.Since(start) > 0) != blocked || (err != nil) != blocked {
				t.Errorf("%s: %v after %v", name, err, time.Since(start))
			}
			for _, s := range append(greedy, honest) {
				synctest.Wait()
				s.Close()
			}
			time.Sleep(2 * Patience)
			for _, s := range greedy { // those that came to it late
				s.Close()
			}
			alone := b.Open()
			alone.Owner = owners.greedy
			if err := alone.Grow(t.Context(), 100*mib); err != nil {
				t.Errorf("%s: alone: %v", name, err)
			}
			alone.Close()
			if len(b.owned) != 0 {
				t.Errorf("%s: owners %v", name, b.owned)
			}
		})
	}
}

// TestHoldingLessGoesFirst: a tenant's body is served before those of a tenant with more
// room, which do not take freed room piece by piece.
func TestHoldingLessGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mib = 1 << 20
		here := netip.MustParseAddr("192.0.2.1") // of an office: 52.5 of 80 MiB
		b := New(80 * mib)
		ask := func(tenant byte, n int64) (s *Share, served *bool) {
			s, served = b.Open(), new(bool)
			s.Owner = Owner{here, [16]byte{tenant}}
			go func() { *served = s.Grow(t.Context(), n) == nil }()
			synctest.Wait()
			return s, served
		}
		var crowd []*Share
		for range 12 { // ten of which wait for nothing
			s, _ := ask(1, 5*mib)
			crowd = append(crowd, s)
		}
		_, honest := ask(2, 9*mib)
		for i, s := range crowd[:2] {
			if *honest {
				t.Fatalf("served when %d bodies had gone, want two", i)
			}
			s.Close()
			synctest.Wait()
		}
		if !*honest {
			t.Errorf("not served when 10 MiB were free: the crowd holds %d MiB", b.Used()/mib)
		}
		time.Sleep(2 * Patience)
	})
}
