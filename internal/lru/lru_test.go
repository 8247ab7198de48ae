// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lru

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func keys(c *Cache[string, int, int], of ...int) (out []string) {
	seq := c.Oldest()
	if len(of) > 0 {
		seq = c.OldestOf(of[0])
	}
	for e := range seq {
		out = append(out, e.Key)
	}
	return out
}

func TestOrder(t *testing.T) {
	c := New(Options[string, int, int]{})
	a := c.Put("a", 1, 10, 100)
	c.Put("b", 2, 20, 150)
	c.Put("c", 1, 30, 10)
	c.Use(a)
	for _, x := range []struct {
		got, want []string
	}{
		{keys(c), []string{"b", "c", "a"}},
		{keys(c, 1), []string{"c", "a"}},
		{keys(c, 2), []string{"b"}},
		{keys(c, 3), nil},
	} {
		if !slices.Equal(x.got, x.want) {
			t.Errorf("%v, want %v", x.got, x.want)
		}
	}
	if of, ok := c.Heaviest(); !ok || of != 2 || c.BytesOf(1) != 110 || c.Bytes() != 260 {
		t.Errorf("%d holds most; %d, %d", of, c.BytesOf(1), c.Bytes())
	}
	c.Resize(a, 200)
	if of, _ := c.Heaviest(); of != 1 || a.Size() != 200 || c.Bytes() != 360 {
		t.Errorf("%d holds most; %d", of, c.Bytes())
	}
	// What is put takes the place of what has its key, whosever that is.
	next := c.Put("a", 2, 11, 5)
	if c.Drop(a); c.Get("a") != next || c.Len() != 3 || c.BytesOf(1) != 10 || c.BytesOf(2) != 155 {
		t.Errorf("%d entries, %d and %d bytes", c.Len(), c.BytesOf(1), c.BytesOf(2))
	}
	for e := range c.Oldest() {
		c.Drop(e)
	}
	if _, ok := c.Heaviest(); ok || c.Len() != 0 || c.Bytes() != 0 || len(slices.Collect(c.Owners())) != 0 {
		t.Errorf("%d entries, %d bytes are left", c.Len(), c.Bytes())
	}
}

// Whatever is done to it, the account is that of what is held.
func TestAccount(t *testing.T) {
	const limit = 10_000
	c := New(Options[int, int, struct{}]{Pool: NewPool[int](limit)})
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		k := r.IntN(50)
		switch e := c.Get(k); {
		case e == nil || r.IntN(8) == 0:
			if c.Put(k, r.IntN(5), struct{}{}, r.Int64N(1000)); c.Bytes() > limit {
				t.Fatalf("%d bytes are held, want at most %d", c.Bytes(), limit)
			}
		case r.IntN(3) == 0:
			c.Drop(e)
		case r.IntN(2) == 0:
			c.Resize(e, r.Int64N(1000))
		default:
			c.Use(e)
		}
		sum, most, n := int64(0), int64(-1), 0
		for of := range c.Owners() {
			own := int64(0)
			for e := range c.OldestOf(of) {
				own += e.Size()
				n++
			}
			if own != c.BytesOf(of) {
				t.Fatalf("owner %d: %d bytes are accounted for, %d held", of, c.BytesOf(of), own)
			}
			sum, most = sum+own, max(most, own)
		}
		if of, ok := c.Heaviest(); ok && c.BytesOf(of) != most || sum != c.Bytes() || n != c.Len() {
			t.Fatalf("%d of %d bytes, %d of %d entries; %d holds most", sum, c.Bytes(), n, c.Len(), of)
		}
	}
}

// Over its limit, a pool drops the oldest entry of the owner that holds most, if that is
// more than a quarter, and else the oldest of all; entries in use stay.
func TestEviction(t *testing.T) {
	type put struct {
		key   string
		owner int
		size  int64
	}
	for _, x := range []struct {
		name string
		puts []put
		used []string // after the puts, before last
		busy []string
		last put
		want []string
	}{
		{"room for all", []put{{"a", 1, 50}}, nil, nil, put{"b", 1, 50}, []string{"a", "b"}},
		{
			"an owner alone has all of the room",
			[]put{{"a", 1, 50}, {"b", 1, 50}},
			nil, nil,
			put{"c", 1, 50},
			[]string{"b", "c"},
		},
		{"use counts", []put{{"a", 1, 50}, {"b", 1, 50}}, []string{"a"}, nil, put{"c", 1, 50}, []string{"a", "c"}},
		{
			"the heaviest owner gives way",
			[]put{{"a", 1, 10}, {"b", 2, 50}, {"c", 2, 40}},
			nil, nil,
			put{"d", 1, 10},
			[]string{"a", "c", "d"},
		},
		{
			"no owner holds more than a quarter",
			[]put{{"a", 1, 20}, {"b", 2, 20}, {"c", 3, 20}, {"d", 4, 20}, {"e", 5, 20}},
			nil, nil,
			put{"f", 6, 20},
			[]string{"b", "c", "d", "e", "f"},
		},
		{"an entry in use stays", []put{{"a", 1, 50}, {"b", 1, 50}}, nil, []string{"a"}, put{"c", 1, 50}, []string{"a", "c"}},
		{
			"all of the heaviest owner's are in use",
			[]put{{"a", 1, 10}, {"b", 2, 90}},
			nil,
			[]string{"b"},
			put{"c", 1, 10},
			[]string{"b", "c"},
		},
		{
			"all are in use",
			[]put{{"a", 1, 50}, {"b", 1, 50}},
			nil,
			[]string{"a", "b", "c"},
			put{"c", 1, 50},
			[]string{"a", "b", "c"},
		},
		{"larger than the pool", []put{{"a", 1, 50}, {"b", 2, 50}}, nil, nil, put{"c", 1, 101}, []string{"a", "b"}},
		{"in place of its key", []put{{"a", 1, 50}, {"b", 2, 50}}, nil, nil, put{"a", 1, 50}, []string{"b", "a"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			var dropped []string
			c := New(Options[string, int, int]{
				Pool:    NewPool[int](100),
				InUse:   func(e *Entry[string, int, int]) bool { return slices.Contains(x.busy, e.Key) },
				Dropped: func(e *Entry[string, int, int]) { dropped = append(dropped, e.Key) },
			})
			for _, p := range x.puts {
				c.Put(p.key, p.owner, 0, p.size)
			}
			for _, k := range x.used {
				c.Use(c.Get(k))
			}
			c.Put(x.last.key, x.last.owner, 0, x.last.size)
			if got := keys(c); !slices.Equal(got, x.want) {
				t.Errorf("left are %v, want %v", got, x.want)
			}
			if n := len(x.puts) + 1 - len(x.want); len(dropped) != n {
				t.Errorf("dropped %v, want %d", dropped, n)
			}
		})
	}
}

// Caches of one pool give way to each other, and know their own entries only.
func TestPool(t *testing.T) {
	pool := NewPool[int](100)
	a, b := New(Options[string, int, int]{Pool: pool}), New(Options[int, int, string]{Pool: pool})
	a.Put("a", 1, 0, 40)
	b.Put(1, 1, "", 40)
	a.Put("b", 2, 0, 20)
	a.Put("c", 2, 0, 10)
	if got, want := keys(a), []string{"b", "c"}; !slices.Equal(got, want) || b.Len() != 1 {
		t.Errorf("left are %v and %d others, want %v and 1", got, b.Len(), want)
	}
	if a.Bytes() != 30 || b.Bytes() != 40 || pool.Bytes() != 70 || len(keys(a, 1)) != 0 {
		t.Errorf("%d and %d of %d bytes; %v", a.Bytes(), b.Bytes(), pool.Bytes(), keys(a, 1))
	}
	if pool.SetLimit(30); pool.Bytes() != 30 || pool.Limit() != 30 || b.Len() != 0 {
		t.Errorf("%d bytes of %d after the limit was lowered", pool.Bytes(), pool.Limit())
	}
}

// Entries expire when they are asked for, by the clock that was handed in, and those in use
// do not.
func TestExpiry(t *testing.T) {
	now, busy := time.Unix(1e9, 0), true
	c := New(Options[string, int, int]{
		TTL: time.Hour, Now: func() time.Time { return now },
		InUse: func(e *Entry[string, int, int]) bool { return busy && e.Key == "busy" },
	})
	for _, k := range []string{"a", "b", "busy"} {
		c.Put(k, 1, 0, 1)
	}
	now = now.Add(time.Hour - 1)
	c.Use(c.Get("a"))
	now = now.Add(1)
	for k, want := range map[string]bool{"a": true, "b": false, "busy": true} {
		if got := c.Get(k) != nil; got != want {
			t.Errorf("%s is there: %t, want %t", k, got, want)
		}
	}
	if next := c.Expire(); next != time.Hour-1 {
		t.Errorf("the next is due in %s", next)
	}
	busy, now = false, now.Add(time.Hour)
	if next := c.Expire(); next != 0 || c.Len() != 0 {
		t.Errorf("%d are left, the next is due in %s", c.Len(), next)
	}
}

// TestSweep: expired entries leave without a request for them.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Options[string, int, int]{TTL: time.Hour})
		use := func(k string) {
			c.Lock()
			defer c.Unlock()
			c.Put(k, 1, 0, 1)
		}
		wants := func(want ...string) {
			t.Helper()
			synctest.Wait()
			c.Lock()
			defer c.Unlock()
			if got := keys(c); !slices.Equal(got, want) {
				t.Errorf("left are %v, want %v", got, want)
			}
		}
		use("a")
		use("b")
		time.Sleep(30 * time.Minute)
		use("a")
		time.Sleep(30 * time.Minute)
		wants("a")
		time.Sleep(30 * time.Minute)
		wants()
		use("c")
		time.Sleep(time.Hour)
		wants()
	})
}

// A cache that waits to be swept is not kept in memory for that.
func TestSweepKeepsNothing(t *testing.T) {
	gone := make(chan bool)
	func() {
		c := New(Options[string, int, int]{TTL: time.Hour})
		c.Put("a", 1, 0, 1)
		runtime.AddCleanup(c, func(c chan bool) { close(c) }, gone)
	}()
	for range 10 {
		runtime.GC()
		select {
		case <-gone:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
	t.Error("it is still in memory")
}

func BenchmarkPut(b *testing.B) {
	c := New(Options[int, int, string]{Pool: NewPool[int](1 << 20), TTL: time.Hour})
	for i := 0; b.Loop(); i++ {
		c.Put(i, i%100, "", 1000)
	}
}

func ExamplePool() {
	pool := NewPool[string](1000)
	c := New(Options[string, string, string]{Pool: pool})
	c.Put("key", "a tenant", "a value", 700)
	c.Put("another", "a tenant", "a value", 700)
	fmt.Println(c.Get("key") == nil, pool.Bytes())
	// Output: true 700
}
