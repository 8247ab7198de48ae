// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package allowance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/storetest"
)

// TestCounters tests the counters of the following tests.
func TestCounters(t *testing.T) {
	storetest.Counters(t, func(*testing.T) sessioncache.Counters { return new(counters) })
}

// counters are counters in memory that can fail.
type counters struct {
	mu       sync.Mutex
	sums     map[sessioncache.Sum]sessioncache.Amount
	reserved map[[16]byte]map[uint64]reservation
	batches  map[uint64]uint64
	calls    atomic.Int64

	fails, forgets atomic.Bool // forgets: the call is made, but its answer lost
	slow           atomic.Int64
}

type reservation struct {
	number uint64
	until  time.Time
	amount sessioncache.Amount
}

var errDown = fmt.Errorf("down: %w", sessioncache.ErrUnavailable)

func (c *counters) lose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sums, c.reserved, c.batches = nil, nil, nil
}

// Count implements [sessioncache.Counters].
func (c *counters) Count(ctx context.Context, call *sessioncache.Count) error {
	c.calls.Add(1)
	if d := time.Duration(c.slow.Load()); d > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
		}
	}
	if c.fails.Load() {
		return errDown
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count(call)
	if c.forgets.Load() {
		return errDown
	}
	return nil
}

func (c *counters) count(call *sessioncache.Count) {
	now := time.Now()
	if c.sums == nil {
		c.sums, c.reserved = map[sessioncache.Sum]sessioncache.Amount{}, map[[16]byte]map[uint64]reservation{}
		c.batches = map[uint64]uint64{}
	}
	key := func(s *sessioncache.Sum) sessioncache.Sum {
		return sessioncache.Sum{Account: s.Account, Period: s.Period, Begins: s.Begins}
	}
	for i := range call.Sums {
		s := &call.Sums[i]
		s.Now = c.sums[key(s)]
		for u := range s.Now {
			s.Now[u] = max(s.Now[u], s.Floor[u])
		}
		c.sums[key(s)] = s.Now
	}
	for i := range call.Reserved {
		r := &call.Reserved[i]
		r.Others = sessioncache.Amount{}
		maps.DeleteFunc(c.reserved[r.Account], func(p uint64, x reservation) bool {
			return p != call.Process && x.until.Before(now)
		})
		for p, x := range c.reserved[r.Account] {
			for u := range x.amount {
				if p != call.Process {
					r.Others[u] += x.amount[u]
				}
			}
		}
	}
	call.Refused = slices.ContainsFunc(call.Limits, func(l sessioncache.Limit) bool {
		r := &call.Reserved[l.Reserved]
		return call.Sums[l.Sum].Now[l.Unit]+r.Open[l.Unit]+r.Others[l.Unit] >= l.Max
	})
	if call.Refused {
		return
	}
	if call.Once == 0 || call.Once > c.batches[call.Process] {
		c.batches[call.Process] = max(call.Once, c.batches[call.Process])
		for i := range call.Sums {
			s := &call.Sums[i]
			sum := c.sums[key(s)]
			for u := range sum {
				sum[u] += s.Add[u]
			}
			c.sums[key(s)] = sum
		}
	}
	for _, r := range call.Reserved {
		if c.reserved[r.Account] == nil {
			c.reserved[r.Account] = map[uint64]reservation{}
		}
		if c.reserved[r.Account][call.Process].number > call.Number {
			continue
		}
		all := r.Open
		for u := range all {
			all[u] += r.Add[u]
		}
		c.reserved[r.Account][call.Process] = reservation{call.Number, now.Add(call.Lease), all}
	}
}

// sharing returns a ledger of a process of its own.
func sharing(t *testing.T, c sessioncache.Counters, adjust ...func(*Options)) *Shared {
	t.Helper()
	o := Options{Counters: func() sessioncache.Counters { return c }, Key: secret.Key{1}, Timeout: 5 * time.Second}
	for _, f := range adjust {
		f(&o)
	}
	l := NewShared(new(Spending), o)
	t.Cleanup(func() { l.Use(Options{Counters: func() sessioncache.Counters { return nil }}) })
	return l
}

func flush(t *testing.T, l *Shared) {
	t.Helper()
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func reserve(l Ledger, b *Budgets, s Spender, dollars float64, now time.Time) (*Reservation, Verdict) {
	return l.Reserve(b, s, Spent{Dollars: dollars}, now)
}

// TestSharedInFlight: with requests in flight at two processes, a budget is exceeded by their
// reservations at most.
func TestSharedInFlight(t *testing.T) {
	const inFlight, cost, limit = 4, 0.25, 10
	c, now := new(counters), time.Now()
	c.slow.Store(int64(100 * time.Microsecond))
	b := budgetsOf(t, fmt.Sprintf("* $%d month", limit))
	nodes := []*Shared{sharing(t, c), sharing(t, c)}
	var spent atomic.Int64 // in requests
	var all sync.WaitGroup
	for _, l := range nodes {
		for range inFlight {
			all.Go(func() {
				for refusals := 0; refusals < 50; {
					r, v := reserve(l, b, user("anna"), cost, now)
					if v.Refused {
						if !v.Reserved {
							return
						}
						refusals++
						time.Sleep(time.Millisecond)
						continue
					}
					spent.Add(1)
					l.Add(user("anna"), now, Spent{Dollars: cost}, now)
					r.Release()
				}
			})
		}
	}
	all.Wait()
	// What is spent and reserved is below the limit when a request is let through.
	if n := cost * float64(spent.Load()); n < limit || n > limit+cost {
		t.Errorf("got $%g spent, want $%d to $%g", n, limit, limit+cost)
	}
}

// TestSharedKilled: reservations of a killed process count until its lease ends, those of a running one
// for as long as they are open.
func TestSharedKilled(t *testing.T) {
	const lease = 200 * time.Millisecond
	c, now := new(counters), time.Now()
	dead := &deadly{Counters: c}
	b := budgetsOf(t, "* $1 month")
	short := func(o *Options) { o.Lease = lease }
	killed, alive := sharing(t, dead, short), sharing(t, c, short)
	_, _ = reserve(killed, b, user("anna"), 1, now)
	_, _ = reserve(alive, b, user("ben"), 1, now)
	third := sharing(t, c, short)
	reserved := func(name string) bool {
		_, v := reserve(third, b, user(name), 0.001, now)
		return v.Reserved
	}
	if !reserved("anna") || !reserved("ben") {
		t.Fatal("reservations of other processes do not count")
	}
	dead.killed.Store(true)
	for reserved("anna") {
		if time.Since(now) > time.Minute {
			t.Fatal("the reservation of a killed process stays")
		}
		time.Sleep(lease / 20)
	}
	time.Sleep(2 * lease)
	if !reserved("ben") {
		t.Error("the lease of an open reservation is not renewed")
	}
}

// deadly are the counters of a process that is killed.
type deadly struct {
	sessioncache.Counters
	killed atomic.Bool
}

func (d *deadly) Count(ctx context.Context, c *sessioncache.Count) error {
	if d.killed.Load() {
		return errDown
	}
	return d.Counters.Count(ctx, c)
}

// TestSharedUnreached: while the counters fail, a process goes on with what it knows, or refuses, and no
// cost is lost or counted twice.
func TestSharedUnreached(t *testing.T) {
	c, now := new(counters), time.Now()
	b := budgetsOf(t, "* $10 month", "site: 100 requests month")
	one, other := sharing(t, c), sharing(t, c)
	spend := func(l *Shared, dollars float64) Verdict {
		r, v := l.Reserve(b, user("anna"), Spent{Dollars: dollars, Requests: 1}, now)
		if !v.Refused {
			l.Add(user("anna"), now, Spent{Dollars: dollars}, now)
			r.Release()
		}
		return v
	}
	spend(one, 2)
	flush(t, one)
	spend(other, 3)
	flush(t, other)
	spend(one, 1)
	flush(t, one)
	for _, fails := range []*atomic.Bool{&c.fails, &c.forgets} {
		fails.Store(true)
		if v := spend(one, 1); v.Refused || v.Account.Kind != User || v.Spent.Dollars < 6 {
			t.Errorf("got %+v, want what this process knows of both", v)
		}
		begun := time.Now()
		if spend(one, 0.5); time.Since(begun) > 500*time.Millisecond {
			t.Error("a request waits for counters that have just failed")
		}
		fails.Store(false)
		flush(t, one)
	}
	time.Sleep(retryCharge + 100*time.Millisecond) // the breaker's rest
	_, v := reserve(other, b, user("anna"), 0, now.Add(time.Minute))
	if v.Spent.Dollars != 9 {
		t.Errorf("got %+v, want $9 of both processes", v.Spent)
	}
	strict := sharing(t, c, func(o *Options) { o.Strict = func() bool { return true } })
	c.fails.Store(true)
	if v := spend(strict, 1); !v.Refused || !v.Uncounted {
		t.Errorf("got %+v, want a refusal", v)
	}
	if len(strict.accounts) != 0 {
		t.Error("a refused request leaves an account behind")
	}
}

// TestSharedSlow: a request does not wait for slow counters, and their late answer counts.
func TestSharedSlow(t *testing.T) {
	c, now := new(counters), time.Now()
	b := budgetsOf(t, "* $10 month", "* 3 requests month")
	l := sharing(t, c, func(o *Options) { o.Timeout = 10 * time.Millisecond })
	c.slow.Store(int64(300 * time.Millisecond))
	begun := time.Now()
	r, v := l.Reserve(b, user("anna"), Spent{Dollars: 1, Requests: 1}, now)
	if took := time.Since(begun); v.Refused || took > 200*time.Millisecond {
		t.Errorf("got %+v after %s", v, took)
	}
	l.Add(user("anna"), now, Spent{Dollars: 1}, now)
	r.Release()
	time.Sleep(400 * time.Millisecond)
	c.slow.Store(0)
	flush(t, l)
	_, v = sharing(t, c).Reserve(b, user("anna"), Spent{Requests: 1}, now)
	if v.Refused || v.Spent.Dollars != 1 && v.Spent.Requests != 1 {
		t.Errorf("got %+v, want $1 and 1 request", v)
	}
}

// TestSharedLoss: counters that have lost everything get it back from those who know it.
func TestSharedLoss(t *testing.T) {
	c, now := new(counters), time.Now()
	b := budgetsOf(t, "* $10 month", "group:* $100 week")
	anna := Spender{User: "anna", Groups: []string{"web"}}
	before := new(Spending) // read from the record
	before.Add(anna, now, Spent{Dollars: 4}, now)
	one, other := sharing(t, c), sharing(t, c)
	one.Join(before, now)
	other.Join(before, now)
	for _, l := range []*Shared{one, other, one} {
		r, _ := reserve(l, b, anna, 1, now)
		l.Add(anna, now, Spent{Dollars: 1}, now)
		r.Release()
		flush(t, l)
	}
	c.lose()
	later := now.Add(2 * freshTime)
	if _, v := reserve(other, b, anna, 0, later); v.Spent.Dollars != 6 {
		t.Errorf("got %+v, want the $6 that one process knows", v.Spent)
	}
	if _, v := reserve(one, b, anna, 0, later); v.Spent.Dollars != 7 {
		t.Errorf("got %+v, want all $7", v.Spent)
	}
	// Sums that are read later are no further spending.
	late := sharing(t, c)
	_, _ = reserve(late, b, anna, 1, later)
	late.Join(before, now)
	if _, v := reserve(late, b, anna, 1, later.Add(2*freshTime)); v.Spent.Dollars != 7 {
		t.Errorf("got %+v, want $7", v.Spent)
	}
}

// TestSharedTwoLimits: a request counts once, however many budgets of a period count requests.
func TestSharedTwoLimits(t *testing.T) {
	c, now := new(counters), time.Now()
	b := budgetsOf(t, "* 5 requests minute", "* 9 requests minute soft")
	one, other := sharing(t, c), sharing(t, c)
	for want := range int64(3) {
		l := one
		if want == 2 {
			l = other
		}
		r, v := l.Reserve(b, user("anna"), Spent{Requests: 1}, now)
		r.Release()
		if v.Spent.Requests != want {
			t.Errorf("got %d requests before this one, want %d", v.Spent.Requests, want)
		}
	}
}

// TestSharedStandings: the budgets on the page are those of all processes.
func TestSharedStandings(t *testing.T) {
	c, now := new(counters), time.Now()
	b := budgetsOf(t, "* $10 month", "ben $10 week", "carla $5 day")
	one, other := sharing(t, c), sharing(t, c)
	for _, name := range []string{"anna", "ben"} {
		r, _ := reserve(one, b, user(name), 1, now)
		one.Add(user(name), now, Spent{Dollars: 1}, now)
		r.Release()
	}
	flush(t, one)
	r, _ := reserve(other, b, user("anna"), 1, now)
	r.Release()
	flush(t, other)
	for i := 0; ; i++ {
		all := other.Standings(b, now.Add(time.Duration(i)*freshTime/10))
		if len(all) == 2 && all[0].Spent.Dollars == 1 && all[1].Spent.Dollars == 1 {
			break
		}
		if i > 500 {
			t.Fatalf("got %+v, want $1 of anna and $1 of ben", all)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if v := other.Cap(b, user("ben"), now); v.Spent.Dollars != 1 {
		t.Errorf("got %+v, want $1 of ben", v)
	}
}

// TestSharedFloods: who is refused all the time does not make a call each time.
func TestSharedFloods(t *testing.T) {
	c, now := new(counters), time.Now()
	b := budgetsOf(t, "* $1 month")
	l := sharing(t, c)
	r, _ := reserve(l, b, user("anna"), 1, now)
	l.Add(user("anna"), now, Spent{Dollars: 1}, now)
	r.Release()
	flush(t, l)
	calls := c.calls.Load()
	for range 100 {
		if _, v := reserve(l, b, user("anna"), 1, now); !v.Refused || v.Reserved {
			t.Fatalf("got %+v, want a refusal", v)
		}
	}
	if n := c.calls.Load() - calls; n > 2 {
		t.Errorf("got %d calls for 100 refusals", n)
	}
	// Whoever spends nothing leaves nothing behind.
	for i := range 100 {
		r, _ := l.Reserve(b, user(fmt.Sprint("stranger ", i)), Spent{Dollars: 0.5, Requests: 1}, now)
		r.Release()
	}
	flush(t, l)
	if n := len(l.accounts); n != 2 { // of anna and the site
		t.Errorf("%d accounts are kept, want 2", n)
	}
	if len(l.open) != 0 || len(l.changed) != 0 {
		t.Errorf("reservations stay: %d open, %d changed", len(l.open), len(l.changed))
	}
}

// TestWithoutCounters: without counters the ledger is the one in memory.
func TestWithoutCounters(t *testing.T) {
	b, now := budgetsOf(t, "* $1 month"), time.Now()
	l := NewShared(new(Spending), Options{Counters: func() sessioncache.Counters { return nil }})
	r, _ := reserve(l, b, user("anna"), 1, now)
	if _, v := reserve(l, b, user("anna"), 1, now); !v.Reserved {
		t.Errorf("got %+v, want a refusal", v)
	}
	l.Add(user("anna"), now, Spent{Dollars: 1}, now)
	r.Release()
	if v := l.Cap(b, user("anna"), now); v.Share != 1 {
		t.Errorf("got %+v, want $1 of $1", v)
	}
}
