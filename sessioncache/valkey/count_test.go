// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package valkey

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/allowance"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/storetest"
)

func TestCounters(t *testing.T) {
	storetest.Counters(t, func(t *testing.T) sessioncache.Counters {
		v := open(t, miniredis.RunT(t))
		t.Cleanup(func() { _ = v.Close() })
		return v
	})
}

func TestCountersAtRealServer(t *testing.T) {
	addr := realServer(t)
	storetest.Counters(t, func(t *testing.T) sessioncache.Counters {
		v := openReal(t, addr, t.Name()+":")
		t.Cleanup(func() { _ = v.Close() })
		return v
	})
}

func TestCountersOfACluster(t *testing.T) {
	addrs, _ := realCluster(t)
	storetest.Counters(t, func(t *testing.T) sessioncache.Counters {
		v := Open(Options{Addresses: addrs[:], Cluster: true, Prefix: t.Name() + ":", TTL: time.Hour})
		reached(t, v)
		t.Cleanup(func() { _ = v.Close() })
		return v
	})
}

// The keys of counters name nobody, and all expire.
func TestCountersRunOut(t *testing.T) {
	m := miniredis.RunT(t)
	v := open(t, m)
	defer v.Close()
	l := ledger(v)
	now := time.Now()
	b := new(allowance.Budgets)
	b.Add(allowance.Account{Kind: allowance.User, Name: allowance.Each}, allowance.Budget{Dollars: 5, Per: allowance.Week})
	anna := allowance.Spender{User: "anna"}
	_, _ = l.Reserve(b, anna, allowance.Spent{Dollars: 1}, now)
	l.Add(anna, now, allowance.Spent{Dollars: 1}, now)
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	keys := m.Keys()
	if len(keys) != 5 { // a day, a week, a month, the reservations, the batch
		t.Errorf("got the keys %q", keys)
	}
	for _, key := range keys {
		if !strings.HasPrefix(key, "t:{budgets}:") || strings.Contains(key, "anna") || m.TTL(key) == 0 {
			t.Errorf("key %q stays for %s", key, m.TTL(key))
		}
	}
}

func ledger(v *Valkey) *allowance.Shared {
	return allowance.NewShared(new(allowance.Spending), allowance.Options{
		Counters: func() sessioncache.Counters { return v }, Key: secret.Key{1}, Timeout: 10 * time.Second,
	})
}

// Ledgers of several processes together give the verdicts of one ledger in memory.
func TestLedgersAsInMemory(t *testing.T) {
	addr := realServer(t)
	words := []string{
		"$1.5 day", "$9 month", "300 tokens hour", "40 requests day", "5 requests minute", "$2 week soft", "2000 tokens week",
	}
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 1))
		b := new(allowance.Budgets)
		for _, name := range []allowance.Account{
			{Kind: allowance.User, Name: allowance.Each},
			{Kind: allowance.Group, Name: "web"},
			{Kind: allowance.Project, Name: "shop"},
			{Kind: allowance.Site},
		} {
			for range random.IntN(3) {
				budget, err := allowance.Parse(strings.Fields(words[random.IntN(len(words))]))
				if err != nil {
					t.Fatal(err)
				}
				b.Add(name, budget)
			}
		}
		want := new(allowance.Spending)
		var nodes []*allowance.Shared
		for range 3 {
			v := openReal(t, addr, fmt.Sprintf("%d:", seed))
			defer v.Close()
			nodes = append(nodes, ledger(v))
		}
		compare(t, random, b, want, nodes)
	}
}

// inFlight is a request in flight at a node, and its twin in memory.
type inFlight struct {
	node    *allowance.Shared
	spender allowance.Spender
	r, twin *allowance.Reservation
}

func compare(
	t *testing.T, random *rand.Rand, b *allowance.Budgets, want *allowance.Spending, nodes []*allowance.Shared,
) {
	t.Helper()
	const steps = 300
	now := time.Now().UTC() // the server forgets periods of the past
	flush := func(l *allowance.Shared) {
		t.Helper()
		if err := l.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var all []inFlight
	refusals := 0
	for step := range steps {
		now = now.Add(time.Duration(2+random.IntN(90)) * time.Second) // sums that were read are old by then
		amount := allowance.Spent{Dollars: float64(random.IntN(64)) / 64, Tokens: random.Int64N(100)}
		if random.IntN(2) == 0 && len(all) > 0 {
			i := random.IntN(len(all))
			x := all[i]
			all[i] = all[len(all)-1]
			all = all[:len(all)-1]
			want.Add(x.spender, now, amount, now)
			x.twin.Release()
			x.node.Add(x.spender, now, amount, now)
			x.r.Release()
			flush(x.node)
			continue
		}
		s := allowance.Spender{User: []string{"anna", "ben"}[random.IntN(2)]}
		if random.IntN(2) == 0 {
			s.Groups = []string{"web"}
		}
		if random.IntN(2) == 0 {
			s.Project = "shop"
		}
		amount.Requests = random.Int64N(2)
		x := inFlight{node: nodes[random.IntN(len(nodes))], spender: s}
		var v, twin allowance.Verdict
		x.twin, twin = want.Reserve(b, s, amount, now)
		x.r, v = x.node.Reserve(b, s, amount, now)
		flush(x.node)
		if v.Refused {
			refusals++
		} else {
			all = append(all, x)
		}
		if v.Refused != twin.Refused || v.Reserved != twin.Reserved || v.Account != twin.Account || v.Budget != twin.Budget ||
			v.Share != twin.Share || !v.Begins.Equal(twin.Begins) || !v.Ends.Equal(twin.Ends) ||
			v.Budget != nil && v.String() != twin.String() {
			t.Fatalf("step %d: got %+v, want %+v", step, v, twin)
		}
	}
	t.Logf("%d steps, %d refusals", steps, refusals)
}
