// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

// Barrier has one of several requests with the same new prefix go first, so that
// one pays for writing it to the provider's cache and the others read it: an entry can be
// read only once the answer to the request that writes it has begun.

import (
	"context"
	"sync"
	"time"
)

// BarrierKey is a prefix at a place where it may be cached.
type BarrierKey struct {
	// Tenant is whose it is: caches are never shared.
	Tenant [16]byte
	// Upstream and Model are where it is cached.
	Upstream, Model string
	// Prefix is the hash of what it holds.
	Prefix [16]byte
}

// BarrierOutcome is what became of a request that came to a barrier.
type BarrierOutcome string

// The outcomes.
const (
	// Free: there was nothing to wait for.
	BarrierFree BarrierOutcome = ""
	// Written: the first has begun to be answered, so that the prefix can be read.
	Written BarrierOutcome = "written"
	// Expired: the first took too long.
	Expired BarrierOutcome = "expired"
	// Gone: the client left.
	Gone BarrierOutcome = "gone"
	// Crowded: too many wait already.
	Crowded BarrierOutcome = "crowded"
)

// BarrierOutcomes are those of requests that had something to wait for.
var BarrierOutcomes = []string{string(Written), string(Expired), string(Gone), string(Crowded)}

const (
	// mostFlights bounds the prefixes that are on their way, mostKnown those that are
	// remembered, mostWaiting the requests that wait.
	mostFlights = 1024
	mostKnown   = 4096
	mostWaiting = 256
)

// Barrier knows which prefixes are on their way and which have been written. Its zero
// value is ready. It may be used from several goroutines.
type Barrier struct {
	mu      sync.Mutex
	flights map[BarrierKey]*BarrierFlight
	known   map[BarrierKey]time.Time // until when
	waiting int
}

// BarrierFlight is the first request with a prefix.
type BarrierFlight struct {
	b        *Barrier
	key      BarrierKey
	until    time.Time
	over     chan struct{}
	answered bool // set before over is closed
}

// Enter lets a request go, which lives for lifetime in the cache from now on: at once, as
// the first, where nobody has written its prefix and nobody is about to; or else when the
// first begins to be answered, or fails, or has taken so long. Who goes first, if it leads
// at all, is given its flight, and has to end it.
func (b *Barrier) Enter(ctx context.Context, k BarrierKey, leads bool, now time.Time, lifetime, wait time.Duration) (*BarrierFlight, BarrierOutcome) {
	var timer *time.Timer
	for {
		f, first, out := b.look(k, leads, now, lifetime)
		if f == nil || first {
			if f == nil && timer != nil && out == BarrierFree {
				out = Written // by another that went first meanwhile
			}
			return f, out
		}
		if timer == nil {
			timer = time.NewTimer(wait)
			defer timer.Stop()
		}
		out = Written
		select {
		case <-f.over:
		case <-timer.C:
			out = Expired
		case <-ctx.Done():
			out = Gone
		}
		b.mu.Lock()
		b.waiting--
		b.mu.Unlock()
		if out != Written || f.answered {
			return nil, out
		}
	}
}

// look returns the flight to wait for, or the one that begins.
func (b *Barrier) look(k BarrierKey, leads bool, now time.Time, lifetime time.Duration) (f *BarrierFlight, first bool, out BarrierOutcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if until, ok := b.known[k]; ok {
		if now.Before(until) {
			b.known[k] = now.Add(lifetime) // reading it refreshes it
			return nil, false, BarrierFree
		}
		delete(b.known, k)
	}
	if f = b.flights[k]; f != nil {
		if b.waiting >= mostWaiting {
			return nil, false, Crowded
		}
		b.waiting++
		return f, false, BarrierFree
	}
	if !leads || len(b.flights) >= mostFlights {
		return nil, false, BarrierFree
	}
	f = &BarrierFlight{b: b, key: k, until: now.Add(lifetime), over: make(chan struct{})}
	if b.flights == nil {
		b.flights, b.known = map[BarrierKey]*BarrierFlight{}, map[BarrierKey]time.Time{}
	}
	b.flights[k] = f
	return f, true, BarrierFree
}

// Waiting is the number of requests that wait.
func (b *Barrier) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting
}

// Answered tells that the answer has begun, and the prefix is written.
func (f *BarrierFlight) Answered() { f.end(true) }

// End ends the flight. Where there was no answer, the next one goes first.
func (f *BarrierFlight) End() { f.end(false) }

func (f *BarrierFlight) end(answered bool) {
	b := f.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.flights[f.key] != f {
		return
	}
	delete(b.flights, f.key)
	if f.answered = answered; answered {
		if len(b.known) >= mostKnown {
			b.forget()
		}
		b.known[f.key] = f.until
	}
	close(f.over)
}

// forget drops what is known of some prefix: at worst it is waited for once more.
func (b *Barrier) forget() {
	for k := range b.known {
		delete(b.known, k)
		return
	}
}
