// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/allowance"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	_ "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/formats" // which is spoken here
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive/pinger"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// site is a handler's configuration, resolved.
type site struct {
	store   *state.State
	records records
	notes   notes
	pipe    *pipeline.Pipeline
	up      *upstream.Profile
	usage   usageRequests
	now     func() time.Time
	reach   Reach
	refused *Refusals
	flights *Barrier
	keeper  *pinger.Keeper
	clients clients
	headers httpx.Headers // that wait to be flushed
	// uncounted has the formats in which the upstream refuses to count tokens, with the time of the
	// refusal.
	uncounted sync.Map
	// cutModels are the models with prompts cut by the upstream that were warned of.
	cutModels Strangers

	// The parts between the handler and the upstream, nil where they are not configured.

	barrier   time.Duration // 0 for no barrier
	keepalive *pinger.Options
	sides     caddyhttp.MiddlewareHandler // nil where side requests go to the upstream
	features  features
	chain     []link
}

// clients tells callers apart, and chooses the headers that they get.
type clients struct {
	people  *tenant.People
	budgets []allowance.Budget
	named   string // the request header that names the conversation
	headers HeaderMode
}

// Open fills in defaults and resolves the configuration. Provision calls it with the app's state, audit
// sink and prices. Other callers may pass a nil sink, and nil prices for the built-in ones.
func (h *Handler) Open(store *state.State, sink *app.Sink, prices *pricing.Table, log *zap.Logger) error {
	if h.Policy == "" {
		h.Policy = pipeline.CostAware
	}
	if h.SessionHeader == "" {
		h.SessionHeader = defaultSessionHeader
	}
	if h.MaxBody == 0 {
		h.MaxBody = defaultMaxBody
	}
	h.SessionHeader = http.CanonicalHeaderKey(h.SessionHeader)
	up := h.Upstream.Profile(upstream.Options{
		Translate:   h.Translate,
		BufferCalls: h.BufferToolCalls != nil && *h.BufferToolCalls, JoinCalls: h.JoinToolCalls != nil && *h.JoinToolCalls,
		MaxBody: h.MaxBody, Headers: h.Headers != HeadersOff, Log: log,
		Prices: prices,
	})
	s := &site{
		store: store, up: up, now: store.Clock.Now, keepalive: h.KeepAlive, keeper: pinger.Of(store), refused: refusalsOf(store), flights: barrierOf(store),
		records: records{of: store.Instance, sink: sink, policy: h.Policy, up: up, outcomes: outcomesOf(h.Policy), conventions: spanConventionsInForce()},
		notes:   notes{log: log, headers: up.Headers, met: strangersOf(store)},
		pipe:    pipeline.New(h.Options, up.Rules()),
		clients: clients{named: h.SessionHeader, headers: h.Headers},
	}
	s.pipe.Target, s.pipe.Manages, s.pipe.ToolBounds, s.pipe.Marks, s.pipe.TakesMarkers = up.Target, up.Manages, up.ToolBounds, up.Marks, up.TakesMarkers
	h.site = s
	if s.barrier = defaultBarrier; h.WriteBarrier != nil {
		s.barrier = time.Duration(*h.WriteBarrier)
	}
	return s.join(h)
}

// loadSides loads the handler of side requests.
func (o *site) loadSides(ctx caddy.Context, h *Handler) error {
	if h.SideRequestsRaw == nil {
		return nil
	}
	m, err := ctx.LoadModule(h, "SideRequestsRaw")
	if err != nil {
		return err
	}
	o.sides = m.(caddyhttp.MiddlewareHandler)
	return nil
}

// The person behind a request is told by the key of the records, which outlives the process, or else by
// that of the sessions.
func (o *site) whose(r *http.Request) tenant.Person {
	return o.clients.people.Of(r, o.persons(), formatAt(r).Traits().KeyHeader)
}

// formatAt guesses the format of an API from any of its paths, for errors in the client's words.
func formatAt(r *http.Request) wire.Format {
	f, ok := wire.Detect(r.Method, r.URL.Path)
	switch path := r.URL.Path; {
	case ok:
		return f
	case strings.Contains(path, "/messages"):
		return wire.Anthropic
	case strings.Contains(path, "/v1beta/"), strings.Contains(path, ":batch"), strings.Contains(path, "Content"):
		return wire.Gemini
	}
	return wire.OpenAIChat
}

// persons is the key by which people are told apart.
func (o *site) persons() *tenant.Key {
	if s := o.records.sink; s != nil {
		return s.Key()
	}
	return o.store.Tenants()
}

// noteHost notes which server a request went to, if reverse_proxy has said so.
func (o *site) noteHost(ctx context.Context) {
	host := upstream.Reached(ctx, upstream.HostPort)
	o.reach.At(host)
	o.up.At(host)
}

// guard runs f and keeps a panic in it from reaching the client's answer.
func (o *site) guard(doing string, f func()) { httpx.Guard(o.up.Log, doing, f) }

// recordRetry is after how many seconds a store that fails may work again: it is tried
// as often.
const recordRetry = 15
