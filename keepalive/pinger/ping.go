// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/selfrequest"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// pingTimeout limits a ping. Reading a cached prompt takes seconds.
const pingTimeout = 60 * time.Second

var metrics = struct {
	pings       *prometheus.CounterVec
	cost, saved prometheus.Counter
}{
	pings: metric.CounterOf("pings_total", "Requests that only kept a cache alive, by what became of them.", "outcome",
		"read", "wrote", "refused", "failed", "canceled"),
	cost: metric.Counter("ping_cost_tokens_total", "What pings have cost, in uncached input tokens."),
	saved: metric.Counter("ping_saved_tokens_total",
		"What the requests after pings did not pay for them, in uncached input tokens."),
}

type conversation struct {
	*selfrequest.Target
	session      *sessioncache.Session
	conversation int
	// price limits the reported usage to possible values and returns its cost.
	price func(wire.Usage) (bounded wire.Usage, cost, dollars float64)
}

var _ keepalive.Payload = (*conversation)(nil)

func (k *Keeper) ping(p *keepalive.Ping) {
	outcome, cost := keepalive.Broken, 0.0
	// Also after a panic: the schedule limits the number of pings in flight.
	defer func() { p.End(outcome, cost) }()
	last := p.Payload.(*conversation)
	ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
	defer cancel()
	// Another process may have continued the conversation and keep its cache warm.
	if k.Store != nil && !k.Store.Owns(ctx, last.session, last.conversation) {
		outcome = keepalive.Canceled
		return
	}
	over := make(chan struct{})
	defer close(over)
	go httpx.Background("awaiting the end of a ping", func() {
		select {
		case <-p.Canceled():
			cancel()
		case <-over:
		}
	})
	at, number := k.now().Wall, p.Number()
	e := &selfrequest.Request{Kind: selfrequest.Ping, Target: last.Target, Session: last.session.ID()}
	usage, became := k.send(ctx, e)
	// A complete read counts even if the client has returned meanwhile.
	if ctx.Err() != nil && became != keepalive.Read {
		became = keepalive.Broken
		if errors.Is(ctx.Err(), context.Canceled) {
			became = keepalive.Canceled
		}
	}
	usage, spent, dollars := last.price(usage)
	outcome, cost = became, spent
	if outcome == keepalive.Read {
		last.session.KeepWarm(last.conversation, at)
		if k.Store != nil {
			k.Store.Publish(last.session)
		}
	}
	metrics.pings.WithLabelValues(string(outcome)).Inc()
	metrics.cost.Add(cost)
	k.mu.Lock()
	k.sum.Pings++
	k.sum.Cost += cost
	k.mu.Unlock()
	e.Record(&audit.Record{
		At: at, Kind: audit.KindKeepAlive, Conversation: last.conversation, Model: last.Model,
		ClientFormat: string(last.Client), UpstreamFormat: string(last.Client), Cost: cost, USD: dollars,
		Reason: string(outcome),
	}, usage, outcome == keepalive.Read || outcome == keepalive.WroteCache)
	if k.Watcher != nil {
		k.Watcher.Pinged(Record{
			Session: e.Session, Conversation: last.conversation, Tenant: p.Habit.Tenant, Number: number, At: at,
			Model: last.Model, Outcome: outcome, Usage: usage, Cost: cost, Dollars: dollars,
		})
	}
}

func (k *Keeper) send(ctx context.Context, e *selfrequest.Request) (u wire.Usage, o keepalive.Outcome) {
	a, err := k.sender.Send(ctx, e)
	if err != nil {
		return u, keepalive.Broken
	}
	return outcome(a, e.Client)
}

func outcome(a *selfrequest.Answer, f wire.Format) (u wire.Usage, o keepalive.Outcome) {
	switch a.Status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusTooManyRequests:
		return u, keepalive.Denied
	}
	if a.Status/100 != 2 {
		return u, keepalive.Broken
	}
	t := a.Turn(f)
	// Without usage it is unknown whether the cache was read.
	if !t.Done || t.Failed() || !t.Usage.Reported {
		return t.Usage, keepalive.Broken
	}
	// A ping repeats a cached prefix: any write means that the cache entry was gone.
	if wrote := t.Usage.Write5m + t.Usage.Write1h; wrote > 0 {
		return t.Usage, keepalive.WroteCache
	}
	return t.Usage, keepalive.Read
}
