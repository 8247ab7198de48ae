// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/http/httpguts"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/feature"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/routes"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/selfrequest"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	_ "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/formats" // which is spoken here
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/resource"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive/pinger"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

const (
	defaultMaxBody       = 32 << 20
	maxMaxBody           = 1 << 30
	defaultSessionHeader = "X-Session-Id"
)

// Handler makes long conversations with language models cheap: it keeps the prefix that
// the upstream has cached byte-identical, edits the rest only where that is free or pays
// for itself, and learns from the usage in answers. It stands before `reverse_proxy`.
//
// It reads POST requests that end in `/v1/messages` (Anthropic Messages), in
// `/chat/completions` (OpenAI chat completions), in `/responses` (OpenAI
// Responses), in `:generateContent` or `:streamGenerateContent` behind a
// model (Gemini), in `/interactions` (Gemini's Interactions API), and those of Claude
// on Vertex AI and Amazon Bedrock. A WebSocket on `…/responses` is accepted, and each
// `response.create` on it is treated as the POST of the whole conversation.
// Everything else passes untouched and unread. A request that is
// not understood passes untouched; a body over the bound is answered by 413.
//
// These placeholders are set on each request that it processes:
//
// Placeholder | Description
// ------------|-------------
// `{http.llm_cache.session}` | Public ID of the session, as on the admin API
// `{http.llm_cache.policy}` | Policy in force
// `{http.llm_cache.original_tokens}` | Estimated prompt tokens of the client's body
// `{http.llm_cache.sent_tokens}` | Estimated prompt tokens of the body sent upstream
// `{http.llm_cache.saved_tokens}` | The difference of the two
// `{http.llm_cache.reduction_pct}` | The same in percent, one decimal
// `{http.llm_cache.transforms}` | Stages that fired, as `stage;n=count, …`, or `none`
// `{http.llm_cache.compressed}` | The words left out, as `texts=count; saved_tokens=count; ms=count`, empty for none
// `{http.llm_cache.decision}` | Why history was folded or left alone
// `{http.llm_cache.overhead_us}` | Microseconds spent before the request was sent, without waiting for the body
// `{http.llm_cache.cached_tokens}` | Prompt tokens that the upstream read from its cache, once it has said so
//
// Under the policy `observe` the sent and saved tokens tell what would have
// been sent. The same values are response headers, as `headers` says.
// `X-Llm-Cache-Cached-Tokens` is a header of answers in one piece, a trailer
// of streams to clients that sent `TE: trailers`, and absent otherwise. The
// variable `llm_session` and the access log field of that name hold the
// session too; other access log fields tell user, tokens and cost.
type Handler struct {
	// Upstream describes the API or server behind this handler. Default: inferred
	// from each request's format and model.
	Upstream *upstream.Upstream `json:"upstream,omitempty"`

	pipeline.Options

	// SessionHeader is the request header that names the conversation, the
	// first place looked at. Default: X-Session-Id.
	SessionHeader string `json:"session_header,omitempty"`

	// Tenant tells tenants apart besides their credentials: placeholders such as
	// `{http.request.header.X-User}` or `{http.request.remote.host}`; all values count.
	// `{http.auth.user.id}` counts anyway. Nothing is shared between tenants. The
	// option is needed where a handler before this one writes the same credential into
	// every request, or where clients of a local server have none. Use values that
	// clients cannot choose: a client that sends another tenant's value is taken for
	// that tenant. Default: none, the credentials alone.
	Tenant []string `json:"tenant,omitempty"`

	// IgnoreCredentials makes Tenant count in place of credentials, for credentials that
	// are renewed, such as the token of a login: the tenant stays the same. Each value has
	// to be one placeholder that other users cannot know or choose. A request in which
	// one of them is empty is told apart by its credentials, too. Default: false.
	IgnoreCredentials bool `json:"ignore_credentials,omitempty"`

	// Project names the project of a request by placeholders, such as
	// `{http.request.header.X-Project}`; the first that is not empty counts. Turns are counted
	// by project on record, in the report, on the page and in metrics. Default: none. Without a
	// value, the tags of a Claude Code request count, then the repository or folder in Codex's turn
	// metadata, then the last element of the working directory in the prompt.
	Project []string `json:"project,omitempty"`

	// MaxBody is the size in bytes that a request body may have, as sent and
	// after decoding its Content-Encoding. Larger ones are answered by 413.
	// At most 1 GiB. Default: 33554432 (32 MiB).
	MaxBody int64 `json:"max_body,omitempty"`

	// Translate decides whether requests in a format that the upstream does not
	// speak are translated into one that it does, and its answers back. Without
	// it they pass untouched. Default: true where the upstream's formats are
	// known, by its preset or by format.
	Translate *bool `json:"translate,omitempty"`

	// BufferToolCalls holds each tool call of a streamed answer until it is complete,
	// and sends it whole; text still streams. In chat completions, streamed or not, calls
	// without an ID, or with that of another call, get one. Default: false.
	BufferToolCalls *bool `json:"buffer_tool_calls,omitempty"`

	// JoinToolCalls sends the tool calls of a streamed answer to clients of chat
	// completions together, in the chunk with the finish_reason: for clients that
	// read calls nowhere else. It implies BufferToolCalls, which is its whole effect
	// on clients of other formats. Default: false.
	JoinToolCalls *bool `json:"join_tool_calls,omitempty"`

	// FeaturesRaw are the parts that only some sites need, by name: `local`, by which users share a local
	// server, `retain`, which leaves conversations to an upstream that keeps them, and `compress`, which
	// leaves words out of old prose. In the Caddyfile their options stand among those of llm_cache.
	FeaturesRaw caddy.ModuleMap `json:"features,omitempty" caddy:"namespace=http.handlers.llm_cache"`

	// SideRequestsRaw is the handler, as a rule a reverse_proxy, that side requests
	// go to in place of the one behind, without a place in the queue: those that
	// offer no tools (titles, topics, guesses), and those that Claude Code calls
	// auxiliary. Requests for a summary of a conversation stay with it. The other
	// handler gets the upstream's format and names of models. Default: none; side
	// requests go to the upstream, behind conversations.
	SideRequestsRaw json.RawMessage `json:"side_requests,omitempty" caddy:"namespace=http.handlers inline_key=handler"`

	// FallbackRaw is the handler, in the Caddyfile the block of `fallback`, that serves requests in place of the
	// handler behind: if that answers with 429 or 5xx or not at all, and the client has nothing of the response
	// yet. It gets the client's own request, and as a rule has an `llm_cache` and a `reverse_proxy` of its own.
	// If it fails, too, the client gets the first upstream's error. A conversation stays with the fallback until
	// its return pays. A failing upstream gets a single request after 1s, 2s and so on up to 30s, or after its
	// Retry-After. Budgets and other refusals of this site do not lead to the fallback. Default: none.
	FallbackRaw json.RawMessage `json:"fallback,omitempty" caddy:"namespace=http.handlers inline_key=handler"`

	// Coalesce is how long a request to a hosted API waits for the first byte of the
	// answer to another one with the same new tools and system prompt: sub-agents that
	// are started together then pay once for writing that prefix to the cache, not each.
	// Requests do not wait for prefixes that are cached or too short, nor for answers
	// that are not streamed. 0 to 1m; 0 lets all go at once. Default: 10s.
	Coalesce *caddy.Duration `json:"coalesce,omitempty"`

	// Headers is the set of headers about a request in its answer: `compact`, one header
	// X-Llm-Cache with the policy, the session, and the tokens saved and read from the
	// cache; `full`, a header X-Llm-Cache-* for each value; `off`, none. A request with
	// `X-Llm-Cache-Headers: full` gets all of them, unless they are off. Default: compact.
	Headers HeaderMode `json:"headers,omitempty"`

	// KeepAlive keeps the caches of idle conversations alive. Default: nil,
	// which sends no pings.
	KeepAlive *pinger.Options `json:"keepalive,omitempty"`

	// Health is a path on which GET and HEAD requests get the state of upstream and stores
	// and the effective configuration, as JSON; the values of the upstream's body, which
	// may be secret, are left out. The status is 200, or 503 where the last three
	// requests or more have had no answer from the upstream, the last of them within
	// 30s. Stores that fail or are slow degrade it, as requests do without them. With the
	// query `?ready` the status is 503 while the stores are being opened and during Caddy's
	// shutdown_delay, and 200 otherwise.
	// Default: none.
	Health string `json:"health,omitempty"`

	// Audit decides whether turns of this handler are put on record, where the
	// app `llm_cache` is configured to keep records. Default: true.
	Audit *bool `json:"audit,omitempty"`

	features map[string]feature.Feature
	site     *site                          // the configuration, resolved
	place    *routes.Place                  // among the routes
	shares   []interface{ Release() error } // given back by Cleanup
}

// CaddyModule returns the Caddy module information.
func (Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.llm_cache",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision fills in defaults and takes a share of the app's session store.
func (h *Handler) Provision(ctx caddy.Context) error {
	v, err := ctx.App("llm_cache")
	if err != nil {
		return fmt.Errorf("loading the llm_cache app: %w", err)
	}
	if err := metric.Register(shared.Of(ctx), ctx.GetMetricsRegistry()); err != nil {
		return err
	}
	a := v.(*app.App)
	l, err := a.Share()
	if err != nil {
		return err
	}
	h.shares = append(h.shares, l)
	var sink *app.Sink
	if h.Audit == nil || *h.Audit {
		records, err := a.ShareAudit()
		if err != nil {
			return err
		}
		if records != nil {
			h.shares = append(h.shares, records)
			sink = records.Of
		}
	}
	if err := h.Upstream.Provision(ctx); err != nil {
		return fmt.Errorf("upstream: %w", err)
	}
	if err := h.LoadFeatures(ctx); err != nil {
		return err
	}
	if err := h.Open(l.Of, sink, a.Prices(), ctx.Logger()); err != nil {
		return err
	}
	h.site.reach.At(h.Upstream.Name()) // until a request tells
	upstreamsOf(l.Of).Add(&h.site.reach)
	h.site.started = a.Started
	h.site.clients.directory = a.Directory()
	h.site.clients.refusesUnknown = a.RefusesUnknown()
	h.site.up.Announce()
	if err := h.site.loadSides(ctx, h); err != nil {
		return fmt.Errorf("side_requests: %w", err)
	}
	if err := h.site.loadFallback(ctx, h); err != nil {
		return fmt.Errorf("fallback: %w", err)
	}
	a.WhenInForce(h.site.shown.Begin)
	h.place = routes.Of(ctx, h)
	a.WhenInForce(h.place.Announce)
	return nil
}

// Validate reports the first option that makes no sense.
func (h *Handler) Validate() error {
	if err := h.Options.Validate(); err != nil {
		return err
	}
	for _, part := range [...]struct {
		name string
		of   interface{ Validate() error }
	}{
		{"upstream", h.Upstream},
		{"keepalive", h.KeepAlive},
	} {
		if err := part.of.Validate(); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	if err := tenant.Validate(h.Tenant, h.IgnoreCredentials); err != nil {
		return fmt.Errorf("tenant: %w", err)
	}
	if d := h.Coalesce; d != nil && (*d < 0 || time.Duration(*d) > maxCoalesce) {
		return fmt.Errorf("coalesce must be between 0 and %s, got %s", maxCoalesce, time.Duration(*d))
	}
	if h.MaxBody < 0 || h.MaxBody > maxMaxBody {
		return fmt.Errorf("max_body must be between 1 and %d bytes, got %d", maxMaxBody, h.MaxBody)
	}
	switch h.Headers {
	case "", HeadersCompact, HeadersFull, HeadersOff:
	default:
		return fmt.Errorf("headers: %q is not compact, full or off", h.Headers)
	}
	if h.SessionHeader != "" && !httpguts.ValidHeaderFieldName(h.SessionHeader) {
		return fmt.Errorf("session_header: %q is not a header name", h.SessionHeader)
	}
	if h.Health != "" && !strings.HasPrefix(h.Health, "/") {
		return fmt.Errorf("health: %q does not begin with a slash", h.Health)
	}
	return nil
}

// Cleanup gives the shares of the stores back. Requests in flight keep theirs to
// their end.
func (h *Handler) Cleanup() error {
	h.place.Warn() // where the configuration was only validated
	if s := h.site; s != nil {
		for _, f := range s.features {
			if f.Close != nil {
				f.Close()
			}
		}
		upstreamsOf(s.store).Remove(&s.reach)
	}
	var err error
	for _, s := range slices.Backward(h.shares) { // the parts of the state before the state
		err = errors.Join(err, s.Release())
	}
	return err
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	tenant.Name(r, h.Tenant, h.IgnoreCredentials)
	next = h.site.up.Keyed(next) // after all that reads the client's credentials
	if t := fallenOf(r); t != nil && t.keyed && !h.site.up.HasKey() {
		next = withoutCredentials(next)
	}
	if e := selfrequest.Of(r); e != nil && h.Policy != pipeline.Off {
		return e.Arrive(w, r, h.site.sends(next))
	}
	if h.place.Refuses(r) {
		return next.ServeHTTP(w, r)
	}
	if h.Health != "" && r.URL.Path == h.Health && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		return h.serveHealth(w, r)
	}
	if refused, err := h.site.refuseStranger(w, r); refused {
		return err
	}
	if h.Policy == pipeline.Off {
		return next.ServeHTTP(w, r)
	}
	return h.site.serve(w, r, next)
}

// Settings returns the settings that the checks of [routes.Examine] look at.
func (h *Handler) Settings() routes.Settings {
	return routes.Settings{
		Upstream: h.Upstream, Translate: h.Translate, MaxBody: h.MaxBody,
		ByCredentials: len(h.Tenant) == 0 && h.Policy != pipeline.Off,
	}
}

// Fallback returns the handler that serves requests in place of those behind, provisioned or raw, for whoever
// examines routes.
func (h *Handler) Fallback() (caddyhttp.MiddlewareHandler, json.RawMessage) {
	if h.site == nil {
		return nil, h.FallbackRaw
	}
	return h.site.fallback, nil
}

// site is a handler's configuration, resolved.
type site struct {
	store     *state.State
	records   records
	bypasses  bypasses
	pipe      *pipeline.Pipeline
	up        *upstream.Profile
	usage     usageRequests
	now       func() time.Time
	reach     Reach
	started   func() bool // nil without an app
	refused   *Refusals
	moves     *Moves
	coalescer *Coalescer
	keeper    *pinger.Keeper
	clients   clients
	headers   httpx.Headers // that wait to be flushed
	// uncounted has the formats in which the upstream refuses to count tokens, with the time of the refusal.
	uncounted sync.Map
	// cutModels are the models with prompts cut by the upstream that were warned of.
	cutModels Strangers

	// The parts between the handler and the upstream, nil where they are not configured.

	coalesce  time.Duration // 0 for none
	keepalive *pinger.Options
	sides     caddyhttp.MiddlewareHandler // nil where side requests go to the upstream
	fallback  caddyhttp.MiddlewareHandler // nil without one
	features  []openFeature               // in the order of their names
	shown     *feature.Site               // the site as its features see it
	internal  selfrequest.Kind            // the kinds of internal requests that the site sends
	rewrites  bool                        // a layer of a feature makes another form of the body
	chain     []link
}

// clients tells callers apart, and chooses the headers that they get.
type clients struct {
	// directory has the users of the app's configuration, nil without an app. It changes with the
	// users file.
	directory *atomic.Pointer[app.Directory]
	// refusesUnknown: requests for models without a price of their own are refused.
	refusesUnknown bool
	named          string // the request header that names the conversation
	project        []string
	headers        HeaderMode
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
		Prices: prices, Translations: translationsOf(store),
	})
	s := &site{
		store: store, up: up, now: store.Clock.Now, keepalive: h.KeepAlive, keeper: pinger.Of(store),
		refused: refusalsOf(store), moves: movesOf(store), coalescer: coalescerOf(store),
		records: records{
			of: store.Instance, sink: sink, policy: h.Policy, up: up, outcomes: outcomesOf(h.Policy),
			conventions: spanConventionsInForce(),
		},
		bypasses: bypasses{log: log, headers: up.Headers, met: strangersOf(store)},
		pipe:     pipeline.New(h.Options, up.Rules()),
		clients:  clients{named: h.SessionHeader, headers: h.Headers, project: h.Project},
	}
	s.pipe.Target, s.pipe.Manages, s.pipe.ToolBounds, s.pipe.Marks, s.pipe.TakesMarkers = up.Target, up.Manages,
		up.ToolBounds, up.Marks, up.TakesMarkers
	if h.KeepAlive != nil {
		s.internal |= selfrequest.Ping
	}
	h.site = s
	if s.coalesce = defaultCoalesce; h.Coalesce != nil {
		s.coalesce = time.Duration(*h.Coalesce)
	}
	return s.join(h)
}

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

// userOf returns the user behind a request.
func (o *site) userOf(r *http.Request) tenant.User {
	return o.clients.load().Users.Of(r, o.userKey(), formatAt(r).Traits().KeyHeader)
}

var noDirectory app.Directory

// load returns the users of the configuration as they are now.
func (c *clients) load() *app.Directory {
	if c.directory == nil {
		return &noDirectory
	}
	return c.directory.Load()
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

func (o *site) userKey() *tenant.Key {
	// The key of the records outlives the process, that of the sessions need not.
	if s := o.records.sink; s != nil {
		return s.Key()
	}
	return o.store.Tenants()
}

func (o *site) bounded() bool { return o.records.sink != nil && o.clients.load().Budgets.Any() }

// guard runs f and keeps a panic in it from reaching the client's answer.
func (o *site) guard(doing string, f func()) { httpx.Guard(o.up.Log, doing, f) }

// recordRetry is the Retry-After, in seconds, while a store fails, and the time between its tries.
const recordRetry = 15

type openFeature struct {
	name string
	*feature.Part
}

// LoadFeatures loads the configured features. Until then the handler has none.
func (h *Handler) LoadFeatures(ctx caddy.Context) (err error) {
	h.features, err = feature.Load(ctx, h.FeaturesRaw)
	return err
}

// Feature returns the configuration of a loaded feature.
func (h *Handler) Feature(name string) feature.Feature { return h.features[name] }

// join opens the features of the site, and puts their layers into its chain.
func (o *site) join(h *Handler) error {
	o.shown = &feature.Site{
		State: o.store, Upstream: o.up, Configured: h.Upstream, Pipeline: o.pipe, Log: o.up.Log, Now: o.now, Parse: o.parse,
		UpstreamKey: o.upstreamKey,
		CollectionKey: func(r *http.Request, x *resource.Resource) string {
			return o.upstreamKeyAt(r, x.Collection(knownPath(r)))
		},
		Warn: func(r *http.Request, format wire.Format, reason string, err error) {
			o.bypasses.warn(r, format, bypass{reason: reason, err: err})
		},
		Serve: o.serve,
	}
	// A feature that fails to open must not keep the shares of those before it.
	defer func() { h.shares = append(h.shares, o.shown.Shares()...) }()
	layers := map[string]feature.Layer{}
	for _, name := range slices.Sorted(maps.Keys(h.features)) {
		part, err := h.features[name].Open(o.shown)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		maps.Copy(layers, part.Layers)
		o.features = append(o.features, openFeature{name, part})
		o.internal |= part.Sends
		o.rewrites = o.rewrites || part.Rewrites
	}
	var err error
	o.chain, err = links(o.up, layers)
	return err
}

// translationsOf returns the translated conversations of a state.
func translationsOf(s *state.State) *upstream.Translations {
	return state.Part(s, func() *upstream.Translations { return upstream.NewTranslations(0, s.Clock.Now) })
}
