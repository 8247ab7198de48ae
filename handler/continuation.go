// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Pass implements [InterceptTap].
func (t *tap) Pass(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return t.exchange.pass(w, r, next)
}

// Follow implements [InterceptTap].
func (t *tap) Follow() wire.Sink {
	if t.dec == nil {
		return nil
	}
	return t.dec.Follow()
}

// Abort implements [InterceptTap]. It cuts the connection, so that the client does not take the
// response for a complete one.
func (t *tap) Abort(err error) {
	t.exchange.settle(err)
	t.flushAll()
	httpx.LogCut(t.log, err)
	panic(http.ErrAbortHandler)
}

// Recall implements [InterceptTap].
func (t *tap) Recall(name string) (string, bool) {
	x := t.exchange
	return x.site.store.Blocks.Get(x.session, x.View.First(), name)
}

// continuation is one request for the continuation of an answer.
type continuation struct {
	at     time.Time
	reason string // summary of the requested texts
}

// GoesOn implements [InterceptTap].
func (t *tap) GoesOn(what string) {
	x := t.exchange
	x.continued = append(x.continued, continuation{time.Now(), what})
	x.span.Event("llm_cache.expand", attribute.String("llm_cache.texts", what))
}

// setApart puts continuations on record and subtracts their cost from the turn's record: the client's own
// bytes would not have caused it. The client's side, all answers included, stays with the turn.
func (x *exchange) setApart(turn *audit.Record) {
	for i, b := range x.Edit.Continuations(x.turn) {
		if i >= len(x.continued) {
			return
		}
		if b.Actual == (wire.Usage{}) { // it failed, or was cut before it cost anything
			continue
		}
		k, end := &x.continued[i], time.Now()
		if i+1 < len(x.continued) {
			end = x.continued[i+1].at
		}
		rec := &audit.Record{
			ID: audit.NewID(k.at), At: k.at, Turns: 1, Kind: audit.KindExpand, Tenant: turn.Tenant, User: turn.User, Session: turn.Session, Lineage: turn.Lineage,
			Client: turn.Client, Model: turn.Model, ClientFormat: turn.ClientFormat, UpstreamFormat: turn.UpstreamFormat, Policy: turn.Policy, Stream: turn.Stream,
			Billed: tokens(b.Actual), Cost: b.Cost, USD: b.Dollars, Outcome: audit.Completed, Reason: k.reason, Status: turn.Status, Total: end.Sub(k.at),
		}
		t := &turn.Billed
		t.Uncached, t.Write5m, t.Write1h = t.Uncached-rec.Billed.Uncached, t.Write5m-rec.Billed.Write5m, t.Write1h-rec.Billed.Write1h
		t.Read, t.Output = t.Read-rec.Billed.Read, t.Output-rec.Billed.Output
		turn.Cost, turn.USD = turn.Cost-rec.Cost, turn.USD-rec.USD
		x.sink.Put(rec)
	}
}
