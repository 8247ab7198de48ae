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

// A coalescer makes one of several requests with the same new prefix go first (singleflight). The first
// request pays for the cache write, and the others read. A cache entry is readable only after the
// response to its writer has begun.

// Bounds of the option coalesce.
const (
	defaultCoalesce = 10 * time.Second
	maxCoalesce     = time.Minute
)

var coalesced = metric.CounterOf("coalesced_total",
	"Requests that have waited for another one to write their common prefix, by what ended it.",
	"outcome", CoalesceOutcomes...)

var coalesceWaiting = metric.Gauge("coalesce_waiting",
	"Requests that wait for another one to write their common prefix.")

// sharedPrefix is a prefix that other requests may be about to write, too.
type sharedPrefix struct {
	key      PrefixKey
	lifetime time.Duration
	leads    bool // its answer begins before it ends
	at       time.Time
}

// coalescedVar marks a request that has been coalesced: a second handler would make it wait for itself.
const coalescedVar = "llm_coalesced"

// newPrefix returns the new prefix that the request has in common with its twins, nil for none.
func (x *exchange) newPrefix(r *http.Request) *sharedPrefix {
	o := x.site
	if o.coalesce == 0 || o.up.Local() || caddyhttp.GetVar(r.Context(), coalescedVar) != nil {
		return nil
	}
	prefix, lifetime, ok := x.Edit.SharedPrefix()
	if !ok {
		return nil
	}
	server := ""
	if s, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok && s != nil {
		server = s.Name()
	}
	return &sharedPrefix{
		key:      PrefixKey{Tenant: x.Tenant, Upstream: server + " " + x.Upstream, Model: x.View.Model, Prefix: prefix},
		lifetime: lifetime, leads: x.View.Reply.Stream, at: o.now(),
	}
}

// coalesced makes requests wait while the first of several with the same new prefix writes it.
func (o *site) coalesced(next caddyhttp.Handler, f *sharedPrefix) caddyhttp.Handler {
	return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		began := time.Now()
		caddyhttp.SetVar(r.Context(), coalescedVar, true)
		coalesceWaiting.Inc()
		flight, out := o.coalescer.Enter(r.Context(), f.key, f.leads, f.at, f.lifetime, o.coalesce)
		coalesceWaiting.Dec()
		if out != NotCoalesced {
			coalesced.WithLabelValues(string(out)).Inc()
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
	flight *CoalescedWrite
}

func (b *firstByte) Begin(int) { b.Send() }

func (b *firstByte) Take(p []byte) (int, error) {
	if b.Status/100 == 2 && len(p) > 0 {
		b.flight.Answered()
	}
	return b.ResponseWriter.Write(p)
}

func (*firstByte) Buffering() bool { return false }

// PrefixKey identifies a prefix in a provider's cache.
type PrefixKey struct {
	// Tenant is the owner: caches are never shared.
	Tenant [16]byte
	// Upstream and Model locate the cache.
	Upstream, Model string
	// Prefix is the hash of the prefix.
	Prefix [16]byte
}

// CoalesceOutcome is the result of a request's visit to a coalescer.
type CoalesceOutcome string

// The outcomes of a visit.
const (
	// NotCoalesced says that the request did not wait.
	NotCoalesced CoalesceOutcome = ""
	// Written says that the first response has begun, so that the prefix is readable.
	Written CoalesceOutcome = "written"
	// Expired says that the first request took too long.
	Expired CoalesceOutcome = "expired"
	// Gone says that the client left.
	Gone CoalesceOutcome = "gone"
	// Crowded says that too many requests wait already.
	Crowded CoalesceOutcome = "crowded"
)

// CoalesceOutcomes are the outcomes of requests that met a flight.
var CoalesceOutcomes = []string{string(Written), string(Expired), string(Gone), string(Crowded)}

const (
	// maxFlights bounds the prefixes being written, maxKnown the written prefixes in memory,
	// maxWaiting the waiting requests.
	maxFlights = 1024
	maxKnown   = 4096
	maxWaiting = 256
)

// Coalescer tracks the prefixes that are being written and those that have been. The zero value is
// ready to use, and safe for concurrent use.
type Coalescer struct {
	mu      sync.Mutex
	flights map[PrefixKey]*CoalescedWrite
	known   map[PrefixKey]time.Time // expiry of the cache entry
	waiting int
}

func coalescerOf(s *state.State) *Coalescer {
	return state.Part(s, func() *Coalescer { return new(Coalescer) })
}

// CoalescedWrite is the first request with a prefix, until its response begins.
type CoalescedWrite struct {
	b        *Coalescer
	key      PrefixKey
	until    time.Time
	over     chan struct{}
	answered bool // set before over is closed
}

// Enter waits until a request with a prefix of the given lifetime may go on. The request goes at
// once if its prefix is written or no flight writes it. Else it waits for the flight's response,
// its failure, or the end of wait. If the request leads and is first, Enter returns its flight,
// which the caller must end.
func (b *Coalescer) Enter(
	ctx context.Context, k PrefixKey, leads bool, now time.Time, lifetime, wait time.Duration,
) (*CoalescedWrite, CoalesceOutcome) {
	var timer *time.Timer
	for {
		f, first, out := b.look(k, leads, now, lifetime)
		if f == nil || first {
			if f == nil && timer != nil && out == NotCoalesced {
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
func (b *Coalescer) look(
	k PrefixKey, leads bool, now time.Time, lifetime time.Duration,
) (f *CoalescedWrite, first bool, out CoalesceOutcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if until, ok := b.known[k]; ok {
		if now.Before(until) {
			b.known[k] = now.Add(lifetime) // a read refreshes the entry
			return nil, false, NotCoalesced
		}
		delete(b.known, k)
	}
	if f = b.flights[k]; f != nil {
		if b.waiting >= maxWaiting {
			return nil, false, Crowded
		}
		b.waiting++
		return f, false, NotCoalesced
	}
	if !leads || len(b.flights) >= maxFlights {
		return nil, false, NotCoalesced
	}
	f = &CoalescedWrite{b: b, key: k, until: now.Add(lifetime), over: make(chan struct{})}
	if b.flights == nil {
		b.flights, b.known = map[PrefixKey]*CoalescedWrite{}, map[PrefixKey]time.Time{}
	}
	b.flights[k] = f
	return f, true, NotCoalesced
}

// Waiting returns the number of waiting requests.
func (b *Coalescer) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting
}

// Answered ends the flight: the response has begun, so the prefix is written.
func (f *CoalescedWrite) Answered() { f.end(true) }

// End ends the flight without a response, so that another request goes first. After Answered it
// does nothing.
func (f *CoalescedWrite) End() { f.end(false) }

func (f *CoalescedWrite) end(answered bool) {
	b := f.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.flights[f.key] != f {
		return
	}
	delete(b.flights, f.key)
	if f.answered = answered; answered {
		if len(b.known) >= maxKnown {
			b.forget()
		}
		b.known[f.key] = f.until
	}
	close(f.over)
}

func (b *Coalescer) forget() {
	// At worst the next request with the prefix leads once more.
	for k := range b.known {
		delete(b.known, k)
		return
	}
}
