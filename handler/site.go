// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"context"
	"errors"
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
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx/budget"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/idlefold"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/letta"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/local"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/overlay"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/relay"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/socket"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/warm"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/websocket"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	_ "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/formats" // which is spoken here
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/resource"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
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
	words     *words                      // nil where no words are left out
	sides     caddyhttp.MiddlewareHandler // nil where side requests go to the upstream
	sharing   sharing
	holding   holding
}

// clients tells callers apart, and chooses the headers that they get.
type clients struct {
	people  *tenant.People
	budgets []allowance.Budget
	named   string // the request header that names the conversation
	headers HeaderMode
}

// sharing holds the parts by which people share a local server.
type sharing struct {
	queue     *local.Queue
	slots     *local.Slots
	overlay   *local.Overlay
	beside    *local.Beside
	rejoin    local.Rejoin
	heartbeat *local.Heartbeat
	warm      *warm.Site
	box       *warm.Box // of warm
	fold      *idlefold.Site
}

// holding is how conversations are held: by the upstream, and for clients by us.
type holding struct {
	options  *relay.Options
	engines  *relay.Engines
	engine   *retain.Engine // towards an origin
	letta    *letta.Site
	carriers *socket.Pool      // nil where nothing goes over WebSockets
	sockets  *websocket.Server // those of clients
}

// open fills in defaults and resolves the configuration.
func (h *Handler) open(store *state.State, sink *app.Sink, prices *pricing.Table, log *zap.Logger, now func() time.Time) error {
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
		store: store, up: up, now: now, keepalive: h.KeepAlive, keeper: pinger.Of(store), refused: refusalsOf(store), flights: barrierOf(store),
		records: records{sink: sink, policy: h.Policy, up: up, outcomes: outcomesOf(h.Policy), conventions: spanConventionsInForce()},
		notes:   notes{log: log, headers: up.Headers, met: strangersOf(store)},
		pipe:    pipeline.New(h.Options, up.Rules()),
		clients: clients{named: h.SessionHeader, headers: h.Headers},
	}
	s.pipe.Target, s.pipe.Manages, s.pipe.ToolBounds, s.pipe.Marks, s.pipe.TakesMarkers = up.Target, up.Manages, up.ToolBounds, up.Marks, up.TakesMarkers
	h.site = s
	if err := s.hold(h); err != nil {
		return err
	}
	if err := s.share(h, log); err != nil {
		return err
	}
	up.Salt = s.cacheSalt
	if s.barrier = defaultBarrier; h.WriteBarrier != nil {
		s.barrier = time.Duration(*h.WriteBarrier)
	}
	s.leaveOut(h.Compress)
	return nil
}

// hold opens the means by which conversations are held.
func (o *site) hold(h *Handler) error {
	engines, err := relay.Of(o.store).Share(h.Hold)
	if err != nil {
		return err
	}
	h.shares = append(h.shares, engines)
	o.holding = holding{
		options: h.Hold, engines: engines.Of, engine: engines.Of.Open(h.Hold),
		letta:   letta.Open(o.store, engines.Of, h.Hold, o.up, o.now),
		sockets: listen(o.store, o.up),
	}
	if h.Hold != nil && h.Hold.WebSocket {
		o.holding.carriers = socket.NewPool(o.now)
	}
	return nil
}

// share sets up the parts by which people share a local server.
func (o *site) share(h *Handler, log *zap.Logger) error {
	s, store, up := &o.sharing, o.store, o.up
	s.queue, s.heartbeat = h.Queue, h.Heartbeat
	name := ""
	if h.Queue != nil {
		slots, err := local.QueuesOf(store).Open(h.Queue, h.Upstream)
		if err != nil {
			return err
		}
		h.shares = append(h.shares, slots)
		s.slots, name = slots.Of, slots.Key
	}
	s.overlay = &local.Overlay{
		Rules: h.Overlay, Observe: h.Policy == pipeline.Observe, Upstream: up, Store: overlay.Of(store), Log: log, Now: o.now,
		Warn: func(r *http.Request, format wire.Format, err error) {
			o.notes.warn(r, format, bypass{reason: local.ReasonOverlay, err: err})
		},
	}
	s.beside = local.NewBeside()
	s.rejoin = local.Rejoin{Detached: local.DetachedOf(store), Log: log}
	if h.Queue != nil {
		s.rejoin.Queue = "queue " + name // which may be empty
	}
	switch {
	case h.Rejoin != nil:
		s.rejoin.Grace = time.Duration(*h.Rejoin)
	case h.Upstream.Local():
		s.rejoin.Grace = local.DefaultGrace
	}
	if h.Warm != nil && h.Queue != nil {
		box, err := warm.Of(store).Open(name, s.slots.Queue)
		if err != nil {
			return err
		}
		h.shares = append(h.shares, box)
		s.box = box.Of
		s.warm = &warm.Site{Options: h.Warm, Queue: name, Upstream: up, Log: log, Now: o.now}
	}
	if h.IdleFolding != nil && h.Queue != nil {
		s.fold = &idlefold.Site{Options: h.IdleFolding, Upstream: up, Queue: s.slots.Queue, State: store, Log: log, Now: o.now}
	}
	return nil
}

// cacheSalt returns a secret shared by the requests that may share prefixes: those of the overlay's
// group, or else of the tenant alone.
func (o *site) cacheSalt(r *http.Request) string {
	key := o.store.Tenants()
	if group := o.sharing.overlay.Sharing(r); group != "" {
		return key.Salt(group)
	}
	tenant := key.Of(r)
	return key.Salt(string(tenant[:]))
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
	return o.clients.people.Of(r, o.persons(), translate.KeyHeader(formatAt(r)))
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

// serve serves a client's request.
func (o *site) serve(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if websocket.Asked(r) {
		return o.serveSocket(w, r, next)
	}
	if f, ok := o.up.CompactsElsewhere(r); ok {
		return upstream.RefuseCompact(w, f)
	}
	if format, ok := wire.DetectCount(r.Method, r.URL.Path); ok && (o.estimates(format) || unreadable(r.Header) == "" && o.up.Sealed(r) == nil && !caddyhttp.IsIncremental(r.Header)) {
		return o.serveCount(w, r, next, format)
	}
	format, ok := wire.Detect(r.Method, r.URL.Path)
	if ok && o.records.sink.Refuses() {
		o.records.count(outcomeUnrecorded)
		return httpx.Fail(w, format, &translate.Failure{
			Status: http.StatusServiceUnavailable, RetryAfter: recordRetry, Message: "requests cannot be put on record at the moment, try again later",
		})
	}
	paid := ok || isPaid(r)
	if paid && o.bounded() { // a request that cannot be read is refused, too, once a budget is spent
		reserved, refused, err := o.afford(w, r, o.whose(r), &wire.View{Format: formatAt(r)}, allowance.Spent{})
		if refused {
			return err
		}
		reserved.Settle()
	}
	if !ok || !o.up.Understands(format) || caddyhttp.IsIncremental(r.Header) {
		switch {
		case r.Method != http.MethodPost:
		case needsNoSlot(r.URL.Path):
			next = o.unknown(r, slotless, format).through(next)
		default: // work for a local server, of an unknown kind
			next = o.unknown(r, unlooked, format).through(next)
		}
		if x, is := resource.Find(r.Method, r.URL.Path); is && !ok {
			next = resourceLayer(next, o.up, x, o.forgets(r, &x))
		}
		if paid && !ok {
			return o.serveOther(w, r, next)
		}
		return next.ServeHTTP(w, r)
	}
	why := bypass{reason: unreadable(r.Header)}
	if err := o.up.Sealed(r); err != nil && why.reason == "" {
		why = bypass{reason: reasonSigned, err: err}
	}
	if why.reason != "" {
		o.notes.pass(w, r, format, why)
		o.records.count(outcomePassed)
		return o.unknown(r, unlooked, format).through(next).ServeHTTP(w, r)
	}
	if !o.store.Pin() { // the configuration is gone and this request came late
		o.notes.pass(w, r, format, bypass{reason: reasonStore})
		o.records.count(outcomePassed)
		return next.ServeHTTP(w, r)
	}
	defer o.store.Unpin()

	a := o.arrival(r, format)
	defer a.share.Close()
	switch err := a.receive(w, r); {
	case errors.Is(err, httpx.ErrNoRoom):
		return o.passUnread(w, r, next, a)
	case errors.Is(err, budget.ErrStalled):
		o.records.count(outcomeStalled)
		return budget.FailStalled(w, format)
	case errors.Is(err, httpx.ErrTooLarge):
		o.records.count(outcomeRefused)
		return failBody(w, r, format, err)
	case err != nil:
		return failBody(w, r, format, err)
	}
	if o.up.Target(format) == format {
		o.guard("taking sealed reasoning out", func() { a.unseal(r) })
	}
	return o.process(w, r, next, a)
}
