// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lru

import (
	"math/rand/v2"
	"slices"
	"testing"
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
	c := New[string, int, int]()
	a := c.Put("a", 1, 10, 100)
	c.Put("b", 2, 20, 150)
	c.Put("c", 1, 30, 10)
	c.Use(a)
	for _, x := range []struct {
		got, want []string
	}{{keys(c), []string{"b", "c", "a"}}, {keys(c, 1), []string{"c", "a"}}, {keys(c, 2), []string{"b"}}, {keys(c, 3), nil}} {
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
	c := New[int, int, struct{}]()
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		k := r.IntN(50)
		switch e := c.Get(k); {
		case e == nil || r.IntN(8) == 0:
			c.Put(k, r.IntN(5), struct{}{}, r.Int64N(1000))
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
