// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
)

// A barrier makes one of several requests with the same new prefix go first (singleflight). The first
// request pays for the cache write, and the others read. A cache entry is readable only after the
// response to its writer has begun.

// Bounds of write_barrier.
const (
	defaultBarrier = 10 * time.Second
	longestBarrier = time.Minute
)

var barriers = metric.CounterOf("write_barrier_total", "Requests that have waited for another one to write their common prefix, by what ended it.",
	"outcome", BarrierOutcomes...)

var barrierWaiting = metric.Gauge("write_barrier_waiting", "Requests that wait for another one to write their common prefix.")

// front is a prefix that other requests may be about to write, too.
type front struct {
	key      BarrierKey
	lifetime time.Duration
	leads    bool // its answer begins before it ends
	at       time.Time
}

// barredVar marks a request that has been at a barrier: at the next one it would wait for
// itself. So it would where it comes to another server of the process over the network, but
// that the server is part of the key.
const barredVar = "llm_barred"

// newFront returns the new prefix that the request has in common with its twins, nil for none.
func (x *exchange) newFront(r *http.Request) *front {
	o := x.site
	if o.barrier == 0 || o.up.Local() || caddyhttp.GetVar(r.Context(), barredVar) != nil {
		return nil
	}
	prefix, lifetime, ok := x.Edit.Front()
	if !ok {
		return nil
	}
	server := ""
	if s, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok && s != nil {
		server = s.Name()
	}
	return &front{
		key:      BarrierKey{Tenant: x.Tenant, Upstream: server + " " + x.Upstream, Model: x.View.Model, Prefix: prefix},
		lifetime: lifetime, leads: x.View.Reply.Stream, at: o.now(),
	}
}

// barred has requests wait while the first of several with the same new prefix writes it.
func (o *site) barred(next caddyhttp.Handler, f *front) caddyhttp.Handler {
	return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		began := time.Now()
		caddyhttp.SetVar(r.Context(), barredVar, true)
		barrierWaiting.Inc()
		flight, out := o.flights.Enter(r.Context(), f.key, f.leads, f.at, f.lifetime, o.barrier)
		barrierWaiting.Dec()
		if out != BarrierFree {
			barriers.WithLabelValues(string(out)).Inc()
			httpx.Waited(w, time.Since(began))
		}
		if flight == nil {
			return next.ServeHTTP(w, r)
		}
		defer flight.End()
		b := &firstByte{flight: flight}
		b.Answer = httpx.NewAnswer(w, b)
		return next.ServeHTTP(b, r)
	})
}

// firstByte tells when an answer has begun.
type firstByte struct {
	httpx.Answer
	flight *BarrierFlight
}

func (b *firstByte) Begin(int) { b.Send() }

func (b *firstByte) Take(p []byte) (int, error) {
	if b.Status/100 == 2 && len(p) > 0 {
		b.flight.Answered()
	}
	return b.ResponseWriter.Write(p)
}

func (*firstByte) Holds() bool { return false }

// BarrierKey identifies a prefix in a provider's cache.
type BarrierKey struct {
	// Tenant is the owner: caches are never shared.
	Tenant [16]byte
	// Upstream and Model locate the cache.
	Upstream, Model string
	// Prefix is the hash of the prefix.
	Prefix [16]byte
}

// BarrierOutcome is the result of a request's visit to a barrier.
type BarrierOutcome string

// The outcomes of a visit.
const (
	// BarrierFree says that the request did not wait.
	BarrierFree BarrierOutcome = ""
	// Written says that the first response has begun, so that the prefix is readable.
	Written BarrierOutcome = "written"
	// Expired says that the first request took too long.
	Expired BarrierOutcome = "expired"
	// Gone says that the client left.
	Gone BarrierOutcome = "gone"
	// Crowded says that too many requests wait already.
	Crowded BarrierOutcome = "crowded"
)

// BarrierOutcomes are the outcomes of requests that met a flight.
var BarrierOutcomes = []string{string(Written), string(Expired), string(Gone), string(Crowded)}

const (
	// mostFlights bounds the prefixes being written, mostKnown the written prefixes in memory,
	// mostWaiting the waiting requests.
	mostFlights = 1024
	mostKnown   = 4096
	mostWaiting = 256
)

// Barrier tracks the prefixes that are being written and those that have been. The zero value is
// ready to use, and safe for concurrent use.
type Barrier struct {
	mu      sync.Mutex
	flights map[BarrierKey]*BarrierFlight
	known   map[BarrierKey]time.Time // expiry of the cache entry
	waiting int
}

// barrierOf returns the barrier of a state.
func barrierOf(s *state.State) *Barrier {
	return state.Part(s, func() *Barrier { return new(Barrier) })
}

// BarrierFlight is the first request with a prefix, until its response begins.
type BarrierFlight struct {
	b        *Barrier
	key      BarrierKey
	until    time.Time
	over     chan struct{}
	answered bool // set before over is closed
}

// Enter waits until a request with a prefix of the given lifetime may go on. The request goes at
// once if its prefix is written or no flight writes it. Else it waits for the flight's response,
// its failure, or the end of wait. If the request leads and is first, Enter returns its flight,
// which the caller must end.
func (b *Barrier) Enter(ctx context.Context, k BarrierKey, leads bool, now time.Time, lifetime, wait time.Duration) (*BarrierFlight, BarrierOutcome) {
	var timer *time.Timer
	for {
		f, first, out := b.look(k, leads, now, lifetime)
		if f == nil || first {
			if f == nil && timer != nil && out == BarrierFree {
				out = Written // by a later flight that ended meanwhile
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

// look returns the flight to wait for, or a new one.
func (b *Barrier) look(k BarrierKey, leads bool, now time.Time, lifetime time.Duration) (f *BarrierFlight, first bool, out BarrierOutcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if until, ok := b.known[k]; ok {
		if now.Before(until) {
			b.known[k] = now.Add(lifetime) // a read refreshes the entry
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

// Waiting returns the number of waiting requests.
func (b *Barrier) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting
}

// Answered ends the flight: the response has begun, so the prefix is written.
func (f *BarrierFlight) Answered() { f.end(true) }

// End ends the flight without a response, so that another request goes first. After Answered it
// does nothing.
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

// forget drops one known prefix. At worst the next request with it leads once more.
func (b *Barrier) forget() {
	for k := range b.known {
		delete(b.known, k)
		return
	}
}
