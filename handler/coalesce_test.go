// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const (
	lifetime = 5 * time.Minute
	wait     = 10 * time.Second
)

var key = PrefixKey{Upstream: "u", Model: "m", Prefix: [16]byte{1}}

// party is a set of concurrent requests.
type party struct {
	b    Coalescer
	wg   sync.WaitGroup
	mu   sync.Mutex
	out  map[CoalesceOutcome]int
	lead []*CoalescedWrite
}

func (p *party) enter(t *testing.T, n int, ctx context.Context, leads bool) {
	t.Helper()
	for range n {
		p.wg.Go(func() {
			f, out := p.b.Enter(ctx, key, leads, time.Now(), lifetime, wait)
			p.mu.Lock()
			defer p.mu.Unlock()
			if f != nil {
				p.lead = append(p.lead, f)
				return
			}
			p.out[out]++
		})
	}
	synctest.Wait()
}

func (p *party) expect(t *testing.T, what string, leaders, waiting int, out map[CoalesceOutcome]int) {
	t.Helper()
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.lead) != leaders || p.b.Waiting() != waiting {
		t.Errorf("%s: %d lead and %d wait, not %d and %d", what, len(p.lead), p.b.Waiting(), leaders, waiting)
	}
	for o, n := range out {
		if p.out[o] != n {
			t.Errorf("%s: %d %q, not %d: %v", what, p.out[o], o, n, p.out)
		}
	}
}

// TestCoalescer: one request goes first, and its twins wait for its response. Later requests find the
// prefix during its lifetime.
func TestCoalescer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &party{out: map[CoalesceOutcome]int{}}
		p.enter(t, 4, t.Context(), true)
		p.expect(t, "at once", 1, 3, map[CoalesceOutcome]int{Written: 0})
		p.lead[0].Answered()
		p.expect(t, "answered", 1, 0, map[CoalesceOutcome]int{Written: 3})
		p.lead[0].End()
		p.enter(t, 2, t.Context(), true)
		p.expect(t, "later", 1, 0, map[CoalesceOutcome]int{NotCoalesced: 2})
		time.Sleep(lifetime)
		p.enter(t, 2, t.Context(), true)
		p.expect(t, "when it has expired", 2, 1, map[CoalesceOutcome]int{NotCoalesced: 2})
		p.lead[1].Answered()
		p.wg.Wait()
	})
}

// TestCoalescerAfterFailure: if the first gets no response, the next goes first. No request waits longer
// than allowed, or after its client has left.
func TestCoalescerAfterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &party{out: map[CoalesceOutcome]int{}}
		p.enter(t, 3, t.Context(), true)
		p.lead[0].End()
		p.expect(t, "failed", 2, 1, map[CoalesceOutcome]int{Written: 0})
		ctx, leave := context.WithCancel(t.Context())
		p.enter(t, 1, ctx, true)
		leave()
		p.expect(t, "client gone", 2, 1, map[CoalesceOutcome]int{Gone: 1})
		time.Sleep(wait)
		p.expect(t, "too long", 2, 0, map[CoalesceOutcome]int{Expired: 1})
		p.lead[1].End()
		p.enter(t, 2, t.Context(), false)
		p.expect(t, "whole answers are no beginnings", 2, 0, map[CoalesceOutcome]int{NotCoalesced: 2})
		p.wg.Wait()
	})
}

// TestCoalescerBounds: the waiting requests are bounded. Others go on at once.
func TestCoalescerBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &party{out: map[CoalesceOutcome]int{}}
		p.enter(t, maxWaiting+3, t.Context(), true)
		p.expect(t, "crowded", 1, maxWaiting, map[CoalesceOutcome]int{Crowded: 2})
		p.lead[0].Answered()
		p.wg.Wait()
		for i := range 2 * maxKnown {
			f, _ := p.b.Enter(t.Context(), PrefixKey{Prefix: [16]byte{2, byte(i), byte(i >> 8)}}, true, time.Now(), lifetime,
				wait)
			f.Answered()
		}
		if n := len(p.b.known); n > maxKnown {
			t.Errorf("%d prefixes are remembered", n)
		}
	})
}
