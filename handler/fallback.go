// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

const (
	// minPause and maxPause bound the time for which a failing upstream gets no requests. Then one request tries
	// it, and each failure doubles the time.
	minPause, maxPause = time.Second, 30 * time.Second
	// maxRatePause bounds a pause by Retry-After. Usage limits may be raised long before they reset.
	maxRatePause = 5 * time.Minute
	// maxRateWait is the longest Retry-After of a 429 that is waited for. Reading a prompt of 100,000 tokens anew
	// costs more: at a provider as much as ten cached turns, at a local server minutes.
	maxRateWait = 5 * time.Second
	// maxStay bounds the time of a conversation at the fallback. A cheaper fallback would keep it for good, and
	// the first upstream is the operator's choice.
	maxStay = time.Hour
	// unknownLifetime stands for the lifetime of the fallback's cache where that is not known.
	unknownLifetime = 5 * time.Minute
)

// Why a request went to the fallback.
const (
	fallbackRate      = "rate_limit" // 429
	fallbackOverload  = "overloaded" // 529
	fallbackError     = "error"      // 5xx
	fallbackUnreached = "unreached"  // no response, or none before its first byte
	fallbackDown      = "down"       // not tried: another request has failed a moment ago
	fallbackStays     = "stays"      // not tried: the conversation's cache is at the fallback
)

var fallbacks = metric.CounterOf("fallbacks_total",
	"Requests that were given to the fallback, by reason: rate_limit (429), overloaded (529), error (5xx), unreached, "+
		"down (not tried so soon after a failure), stays (the conversation's cache is at the fallback).", "reason",
	fallbackRate, fallbackOverload, fallbackError, fallbackUnreached, fallbackDown, fallbackStays)

var fallbacksFailed = metric.Counter("fallbacks_failed_total",
	"Requests that the fallback could not serve: the client got the first upstream's response.")

// fallback is the part of an exchange at a site with fallback handlers.
type fallback struct {
	client http.Request // as it came
	body   []byte       // as the client sent it
	place  stayKey
	reason string         // why the request goes to the fallback, "" while the first upstream serves it
	first  *httpx.Attempt // the first upstream's response, nil if it was not tried
	begun  bool           // that response is the client's
}

// serveEither serves a request by the first upstream or by the fallback.
func (x *exchange) serveEither(w http.ResponseWriter, r *http.Request) error {
	o, next := x.site, x.next
	f := &fallback{client: *r}
	x.fallback = f
	err := x.serve(w, r)
	if f.reason == "" {
		return err
	}
	fallbacks.WithLabelValues(f.reason).Inc()
	*r = f.client
	x.came.share.Set(int64(cap(f.body)))
	turn := fallenTurn{reason: f.reason, keyed: o.up.HasKey(), depth: 1}
	if outer := fallenOf(r); outer != nil {
		turn.depth += outer.depth
	}
	if served, err := f.serve(w, r, o.fallback, &turn); served {
		o.moves.stay(f.place, &turn, o.now())
		return err
	}
	o.moves.leave(f.place)
	httpx.SetBody(r, f.body)
	if r.Context().Err() != nil {
		return r.Context().Err()
	}
	fallbacksFailed.Inc()
	switch a := f.first; {
	case a == nil: // the first upstream is the last chance
		again := o.newExchange(r, x.Format, next)
		defer again.came.share.Close()
		err := again.serve(w, r)
		if again.status/100 == 2 {
			o.moves.note(again, "", nil)
		}
		return err
	case a.Status >= http.StatusBadRequest:
		return a.SendWhole(a.Body)
	case a.Err != http.ErrAbortHandler: //nolint:errorlint,err113 // the very value
		return a.Err // for error routes
	default: // cut before its first byte
		return httpx.Fail(w, x.Format, &translate.Failure{
			Status: http.StatusBadGateway, Message: httpx.Unreached[http.StatusBadGateway],
		})
	}
}

// serve has the fallback's handlers serve the client's own request. It reports whether they have responded
// to the client: a refusal or an error of theirs is dropped.
func (f *fallback) serve(
	w http.ResponseWriter, r *http.Request, handlers caddyhttp.MiddlewareHandler, turn *fallenTurn,
) (served bool, err error) {
	a := httpx.NewAttempt(w, success{})
	r = httpx.Isolate(r, a)
	httpx.SetBody(r, f.body)
	caddyhttp.SetVar(r.Context(), coalescedVar, nil) // a prefix that is new at the fallback is written once, too
	*r = *r.WithContext(context.WithValue(r.Context(), fallenKey{}, turn))
	defer httpx.Tell(f.client.Context(), r.Context())
	rejected, err := a.Serve(caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		return handlers.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
			return caddyhttp.Error(http.StatusBadGateway, errNoFallback)
		}))
	}), r)
	return !rejected, err
}

var errNoFallback = errors.New("no handler of the fallback has responded")

// success accepts responses without an error that have begun.
type success struct{}

// Judge implements [httpx.Judge].
func (success) Judge(a *httpx.Attempt) httpx.Verdict {
	switch {
	case a.Err != nil, a.Status == 0, a.Status >= http.StatusBadRequest:
		return httpx.Reject
	case a.Gathered:
		return httpx.Accept
	}
	a.Early = true
	return httpx.Wait
}

// firstTry sends a request to the first upstream. A response is the client's from its first byte on.
type firstTry struct {
	*exchange
	started time.Time
}

// ServeHTTP implements [caddyhttp.Handler].
func (t *firstTry) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	return t.attended(w, r, t.started)
}

// Judge implements [httpx.Judge].
func (t *firstTry) Judge(a *httpx.Attempt) httpx.Verdict {
	f := t.fallback
	f.reason = t.fallbackReason(a.Status, a.Err)
	switch {
	case f.reason == "" && a.Status/100 == 2 && !a.Gathered:
		a.Early = true
		return httpx.Wait
	case f.reason == "":
		f.begun = true
		if a.Status != 0 {
			t.site.moves.note(t.exchange, "", nil)
		}
		return httpx.Accept
	case !a.Gathered: // the client gets this response if the fallback fails
		return httpx.Wait
	default:
		f.first = a
		t.site.moves.note(t.exchange, f.reason, a.Header())
		return httpx.Reject
	}
}

// fallbackReason returns why the fallback serves a request in place of the first upstream, "" if it does not.
func (x *exchange) fallbackReason(status int, err error) string {
	t := &x.tap
	if e, ok := errors.AsType[caddyhttp.HandlerError](err); ok && status == 0 {
		status = e.StatusCode
	}
	switch {
	case x.fallback.begun || t.request == nil || t.request.Context().Err() != nil: // or the client has left
		return ""
	case status == http.StatusTooManyRequests:
		return fallbackRate
	case status == translate.StatusOverloaded:
		return fallbackOverload
	case status/100 == 4:
		return ""
	case t.Status == 0 && (err != nil || status >= http.StatusInternalServerError), err != nil && t.Status/100 == 2:
		return fallbackUnreached
	case status >= http.StatusInternalServerError:
		return fallbackError
	case t.stream && t.dec != nil && !t.dec.Begun() && t.dec.Turn().Failed(): // an error is the first event
		return fallbackError
	}
	return ""
}

// skips reports whether the request goes to the fallback without a try of the first upstream.
func (f *fallback) skips(x *exchange) bool {
	f.place = stayKey{x.Upstream, x.Session, x.View.First()}
	f.reason = x.site.moves.elsewhere(f.place, x)
	return f.reason != ""
}

// fallenKey is the context key of the fallenTurn of a request at the fallback's handlers.
type fallenKey struct{}

// fallenTurn is a request at the fallback's handlers: input for a handler among them, and the turn as that
// handler has seen it.
type fallenTurn struct {
	reason string
	keyed  bool // the first upstream has a key, so that the client's credentials are for this site
	depth  int  // of fallbacks within fallbacks

	rules          *pricing.Rules // nil if no handler has seen the turn
	prompt, output int64          // in tokens
}

// seen records a completed turn.
func (t *fallenTurn) seen(x *exchange) {
	rules := x.Edit.Rules()
	t.rules, t.prompt, t.output = &rules, x.turn.Usage.Prompt(), x.turn.Usage.Output
}

// fallenOf returns the turn of a request at the fallback's handlers, nil for other requests.
func fallenOf(r *http.Request) *fallenTurn {
	t, _ := r.Context().Value(fallenKey{}).(*fallenTurn)
	return t
}

// withoutCredentials returns next behind the handler that removes the client's credentials, which are for this
// site and not for the fallback.
func withoutCredentials(next caddyhttp.Handler) caddyhttp.Handler {
	return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		return next.ServeHTTP(w, tenant.WithoutCredentials(r))
	})
}

// Moves tracks failing upstreams, and the conversations at fallbacks. The zero value is ready to use.
type Moves struct {
	mu     sync.Mutex
	pauses *lru.Cache[pauseKey, struct{}, *pause]
	stays  *lru.Cache[stayKey, struct{}, *stay]
}

func movesOf(s *state.State) *Moves { return state.Part(s, func() *Moves { return new(Moves) }) }

// pauseKey is a failing upstream: for one tenant, whose rate limit is reached, or for all.
type pauseKey struct {
	upstream string
	tenant   sessioncache.Tenant
}

// pauseKeys are the keys of the exchange's upstream: for all, and for its tenant.
func (x *exchange) pauseKeys() [2]pauseKey {
	return [...]pauseKey{{upstream: x.Upstream}, {x.Upstream, x.Tenant}}
}

// pause is the time for which a failing upstream gets no requests.
type pause struct {
	until  time.Time
	length time.Duration
}

// stayKey is a conversation that began at a first upstream.
type stayKey struct {
	upstream, session string
	conversation      wire.Hash
}

// stay is a conversation's time at the fallback.
type stay struct {
	since, last time.Time
	turn        fallenTurn
	grown       int64 // tokens by which the last prompt was longer than the one before
}

// elsewhere returns why a request goes to the fallback at once, "" if the first upstream is tried.
func (m *Moves) elsewhere(key stayKey, x *exchange) string {
	now := x.site.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stays == nil {
		return ""
	}
	if e := m.stays.Get(key); e != nil && !e.Value.over(x, now) {
		return fallbackStays
	}
	for _, k := range x.pauseKeys() {
		e := m.pauses.Get(k)
		if e == nil {
			continue
		}
		if now.Before(e.Value.until) {
			return fallbackDown
		}
		e.Value.until = now.Add(maxPause) // this request tries the upstream, and others wait for the result
	}
	return ""
}

// over reports whether a conversation returns to the first upstream.
func (s *stay) over(x *exchange, now time.Time) bool {
	lifetime := unknownLifetime
	if s.turn.rules != nil && s.turn.rules.TTL > 0 {
		lifetime = s.turn.rules.TTL
	}
	return x.Edit.Warm() || now.Sub(s.last) > lifetime || now.Sub(s.since) > maxStay ||
		s.turn.rules != nil && s.pays(x.Edit.Rules(), x.Edit.Decision.Further)
}

// pays reports whether the price difference of the expected further turns exceeds the cost of a cold prefix
// at the first upstream.
func (s *stay) pays(first pricing.Rules, further float64) bool {
	cost := func(r pricing.Rules, read, written int64) float64 {
		r = r.At(int(read + written))
		return (float64(read)*r.Read+float64(written)*r.Write)*r.Input + float64(s.turn.output)*r.Output
	}
	known := s.turn.prompt - s.grown
	turn := cost(first, known, s.grown)
	return further*(cost(*s.turn.rules, known, s.grown)-turn) > cost(first, 0, s.turn.prompt)-turn
}

// stay records a turn of a conversation at the fallback.
func (m *Moves) stay(key stayKey, turn *fallenTurn, now time.Time) {
	if key == (stayKey{}) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open()
	s := found(m.stays, key, func() *stay { return &stay{since: now} })
	if s.turn.prompt > 0 {
		s.grown = max(0, turn.prompt-s.turn.prompt)
	}
	s.last, s.turn = now, *turn
}

// leave ends a conversation's stay.
func (m *Moves) leave(key stayKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stays != nil {
		if e := m.stays.Get(key); e != nil {
			m.stays.Drop(e)
		}
	}
}

// note records that the first upstream has served a request, or a reason why it has not, with the header of
// its response.
func (m *Moves) note(x *exchange, reason string, h http.Header) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open()
	keys := x.pauseKeys()
	if reason == "" {
		for _, k := range keys {
			if e := m.pauses.Get(k); e != nil {
				m.pauses.Drop(e)
			}
		}
		return
	}
	key := keys[0]
	if reason == fallbackRate {
		key = keys[1]
	}
	p := found(m.pauses, key, func() *pause { return new(pause) })
	p.length = min(max(2*p.length, minPause), maxPause)
	wait, _ := retryAfter(h)
	p.until = x.site.now().Add(min(max(p.length, wait), maxRatePause))
}

func (m *Moves) open() {
	if m.stays == nil {
		m.pauses, m.stays = remembered[pauseKey, *pause](), remembered[stayKey, *stay]()
	}
}

// retryAfter returns the time to wait that a response asks for. Dates are not read: providers send seconds.
func retryAfter(h http.Header) (time.Duration, bool) {
	seconds, err := strconv.ParseFloat(first(h, "Retry-After"), 64)
	if err != nil || !(seconds >= 0 && seconds <= 1e6) {
		return 0, false
	}
	return time.Duration(seconds * float64(time.Second)), true
}

// rateWait is the layer that waits for a rate limit which ends within maxRateWait, once.
type rateWait struct {
	next caddyhttp.Handler
	wait time.Duration
}

// ServeHTTP implements [httpx.Retrier].
func (l *rateWait) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	if l.wait > 0 {
		select {
		case <-time.After(l.wait):
		case <-r.Context().Done():
			return r.Context().Err()
		}
	}
	return l.next.ServeHTTP(w, r)
}

// Judge implements [httpx.Judge].
func (l *rateWait) Judge(a *httpx.Attempt) httpx.Verdict {
	if a.Status != http.StatusTooManyRequests || l.wait > 0 {
		return httpx.Accept
	}
	wait, ok := retryAfter(a.Header())
	if !ok || wait > maxRateWait {
		return httpx.Accept
	}
	l.wait = max(wait, time.Millisecond)
	return httpx.Reject
}

func (o *site) loadFallback(ctx caddy.Context, h *Handler) error {
	if h.FallbackRaw == nil {
		return nil
	}
	m, err := ctx.LoadModule(h, "FallbackRaw")
	if err != nil {
		return err
	}
	o.fallback = m.(caddyhttp.MiddlewareHandler)
	return nil
}
