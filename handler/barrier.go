// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
)

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
		key:      BarrierKey{Tenant: x.Tenant, Upstream: server + " " + o.upstreamKey(r), Model: x.View.Model, Prefix: prefix},
		lifetime: lifetime, leads: x.View.Reply.Stream, at: o.now(),
	}
}

// barred has requests wait while the first of several with the same new prefix writes it.
func (o *site) barred(next caddyhttp.Handler, f *front) caddyhttp.Handler {
	if f == nil {
		return next
	}
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
