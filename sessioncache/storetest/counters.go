// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Counters tests counters that several processes share. open is as for [Shared]: it returns empty
// counters, and in the same test the same ones again.
func Counters(t *testing.T, open func(t *testing.T) sessioncache.Counters) {
	t.Helper()
	for name, test := range map[string]func(t *testing.T, c sessioncache.Counters){
		"Adds": adds, "Floors": floors, "Limits": limits, "Once": once, "Orders": orders, "Leases": leases,
		"AllOrNothing": allOrNothing, "Races": races,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// sum is a sum of a day.
func sum(account byte, floor, add sessioncache.Amount) sessioncache.Sum {
	return sessioncache.Sum{
		Account: [16]byte{account}, Period: 2, Begins: 1_800_000_000, Ends: time.Now().Add(time.Hour), Floor: floor, Add: add,
	}
}

func counts(t *testing.T, c sessioncache.Counters, call *sessioncache.Count) *sessioncache.Count {
	t.Helper()
	if call.Lease == 0 {
		call.Lease = time.Minute
	}
	if err := c.Count(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	return call
}

// reads returns a sum.
func reads(t *testing.T, c sessioncache.Counters, account byte) sessioncache.Amount {
	t.Helper()
	call := counts(t, c, &sessioncache.Count{Process: 99, Sums: []sessioncache.Sum{sum(account, sessioncache.Amount{},
		sessioncache.Amount{})}})
	return call.Sums[0].Now
}

func wants(t *testing.T, what string, got, want sessioncache.Amount) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// Sums of unlike accounts and periods are apart, and large numbers stay exact.
func adds(t *testing.T, c sessioncache.Counters) {
	large := sessioncache.Amount{1<<60 + 1, 2, 3, 4}
	other := sum(1, sessioncache.Amount{}, sessioncache.Amount{7})
	other.Begins++
	call := counts(t, c, &sessioncache.Count{Process: 1, Number: 1, Sums: []sessioncache.Sum{
		sum(1, sessioncache.Amount{}, large), sum(2, sessioncache.Amount{}, sessioncache.Amount{0, 5}), other,
	}})
	wants(t, "before the first addition", call.Sums[0].Now, sessioncache.Amount{})
	counts(t, c, &sessioncache.Count{Process: 2, Number: 1, Sums: []sessioncache.Sum{
		sum(1, sessioncache.Amount{}, sessioncache.Amount{1, 1, 1, 1}),
	}})
	wants(t, "two processes", reads(t, c, 1), sessioncache.Amount{1<<60 + 2, 3, 4, 5})
	wants(t, "another account", reads(t, c, 2), sessioncache.Amount{0, 5})
	call = counts(t, c, &sessioncache.Count{Process: 1, Number: 2, Sums: []sessioncache.Sum{other}})
	wants(t, "another period", call.Sums[0].Now, sessioncache.Amount{7})
}

// A sum below its floor is raised to it, before the limits are checked.
func floors(t *testing.T, c sessioncache.Counters) {
	for _, x := range []struct{ floor, now int64 }{{0, 0}, {5, 5}, {3, 5}, {8, 8}} {
		call := counts(t, c, &sessioncache.Count{Process: 1, Sums: []sessioncache.Sum{sum(1, sessioncache.Amount{x.floor},
			sessioncache.Amount{})}})
		wants(t, "a floor", call.Sums[0].Now, sessioncache.Amount{x.now})
	}
	call := reserving(1, 1, 0, 1)
	call.Sums[0].Floor, call.Limits[0].Max = sessioncache.Amount{9}, 9
	if !counts(t, c, call).Refused {
		t.Error("a limit is checked without the floor")
	}
}

// reserving is a call that reserves an amount in account 1, with the limit 10.
func reserving(process, number uint64, open, add int64) *sessioncache.Count {
	return &sessioncache.Count{
		Process: process, Number: number, Sums: []sessioncache.Sum{sum(1, sessioncache.Amount{}, sessioncache.Amount{})},
		Reserved: []sessioncache.Reserved{{
			Account: [16]byte{1}, Open: sessioncache.Amount{open}, Add: sessioncache.Amount{add},
		}},
		Limits: []sessioncache.Limit{{Max: 10}},
	}
}

// A limit is reached by a sum, or by a sum and the reservations before the new one.
func limits(t *testing.T, c sessioncache.Counters) {
	if counts(t, c, reserving(1, 1, 0, 6)).Refused {
		t.Fatal("the first reservation is refused")
	}
	call := counts(t, c, reserving(2, 1, 0, 6))
	if call.Refused {
		t.Error("a reservation is refused although 6 of 10 are reserved")
	}
	wants(t, "the others", call.Reserved[0].Others, sessioncache.Amount{6})
	if call = counts(t, c, reserving(3, 1, 0, 1)); !call.Refused {
		t.Error("12 of 10 are reserved, and more is allowed")
	}
	wants(t, "the others of a refused one", call.Reserved[0].Others, sessioncache.Amount{12})
	wants(t, "the sum", reads(t, c, 1), sessioncache.Amount{})
	if counts(t, c, reserving(2, 2, 0, 0)).Refused {
		t.Error("a released reservation counts")
	}
	spent := reserving(1, 2, 0, 0)
	spent.Sums[0].Add, spent.Limits = sessioncache.Amount{10}, nil
	counts(t, c, spent)
	if !counts(t, c, reserving(3, 2, 0, 1)).Refused {
		t.Error("10 of 10 are spent, and more is allowed")
	}
}

// A batch of additions that is sent twice counts once, and its reservations all the same.
func once(t *testing.T, c sessioncache.Counters) {
	send := func(process, number, batch uint64, open int64) {
		t.Helper()
		call := reserving(process, number, open, 0)
		call.Once, call.Limits, call.Sums[0].Add = batch, nil, sessioncache.Amount{1}
		counts(t, c, call)
	}
	send(1, 1, 1, 4)
	send(1, 2, 1, 3)
	wants(t, "sent twice", reads(t, c, 1), sessioncache.Amount{1})
	send(1, 3, 2, 2)
	send(1, 4, 1, 2)
	wants(t, "the next batch", reads(t, c, 1), sessioncache.Amount{2})
	send(2, 1, 1, 0)
	wants(t, "another process", reads(t, c, 1), sessioncache.Amount{3})
	wants(t, "the reservation", counts(t, c, reserving(2, 2, 0, 0)).Reserved[0].Others, sessioncache.Amount{2})
}

// Calls of a process may arrive in another order: the highest number counts.
func orders(t *testing.T, c sessioncache.Counters) {
	counts(t, c, reserving(1, 2, 3, 2))
	counts(t, c, reserving(1, 1, 0, 3))
	wants(t, "the later one", counts(t, c, reserving(2, 1, 0, 0)).Reserved[0].Others, sessioncache.Amount{5})
	counts(t, c, reserving(1, 3, 0, 0))
	wants(t, "none", counts(t, c, reserving(2, 2, 0, 0)).Reserved[0].Others, sessioncache.Amount{})
}

// Reservations end with their lease.
func leases(t *testing.T, c sessioncache.Counters) {
	short := reserving(1, 1, 0, 6)
	short.Lease = 100 * time.Millisecond
	counts(t, c, short)
	counts(t, c, reserving(2, 1, 0, 2))
	wants(t, "both", counts(t, c, reserving(3, 1, 0, 0)).Reserved[0].Others, sessioncache.Amount{8})
	time.Sleep(200 * time.Millisecond)
	wants(t, "after one lease", counts(t, c, reserving(3, 2, 0, 0)).Reserved[0].Others, sessioncache.Amount{2})
}

// A refused count adds nothing to any account.
func allOrNothing(t *testing.T, c sessioncache.Counters) {
	full := reserving(1, 1, 0, 6)
	full.Sums = append(full.Sums, sum(2, sessioncache.Amount{0, 0, 5}, sessioncache.Amount{}))
	full.Sums[0].Add, full.Sums[1].Add = sessioncache.Amount{0, 0, 1}, sessioncache.Amount{0, 0, 1}
	full.Reserved = append(full.Reserved, sessioncache.Reserved{Account: [16]byte{2}, Add: sessioncache.Amount{6}})
	full.Limits = append(full.Limits, sessioncache.Limit{Sum: 1, Reserved: 1, Unit: 2, Max: 5})
	if !counts(t, c, full).Refused {
		t.Fatal("5 of 5 requests were made, and more are allowed")
	}
	wants(t, "the account with room", reads(t, c, 1), sessioncache.Amount{})
	wants(t, "the full account", reads(t, c, 2), sessioncache.Amount{0, 0, 5})
	wants(t, "its reservations", counts(t, c, reserving(2, 1, 0, 0)).Reserved[0].Others, sessioncache.Amount{})
}

// Of many processes that reserve at once, as many succeed as there is room for.
func races(t *testing.T, c sessioncache.Counters) {
	var all sync.WaitGroup
	var let atomic.Int64
	for process := range uint64(20) {
		all.Go(func() {
			call := reserving(process+1, 1, 0, 3)
			call.Lease = time.Minute
			if err := c.Count(t.Context(), call); err != nil {
				t.Error(err)
			} else if !call.Refused {
				let.Add(1)
			}
		})
	}
	all.Wait()
	if n := let.Load(); n != 4 { // the fourth begins with 9 of 10
		t.Errorf("got %d reservations, want 4", n)
	}
}
