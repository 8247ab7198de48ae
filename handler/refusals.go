// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/page"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

const (
	// refusalWindow is the time within which refusals count together.
	refusalWindow = 10 * time.Minute
	// refusalPause is the time for which refused kinds of edits are left out.
	refusalPause = time.Hour
	// ownRefusals is the number of a tenant's conversations with refusals after which all its
	// requests go without the refused kinds.
	ownRefusals = 3
	// maxRefusals bounds the routes and tenants in memory.
	maxRefusals = 4096
	// shownPauses bounds the routes on the page.
	shownPauses = 10

	// resendBurst is the number of a tenant's requests that may be sent twice in vain before
	// resendShare applies. resendShare is the permitted share of its edited requests.
	resendBurst = 5
	resendShare = 0.1
)

// Route identifies the acceptance of edits: an upstream may accept an edit for another model, or
// with another kind of credential.
type Route struct {
	// Upstream is the upstream's name, as in sessions.
	Upstream string
	// Model is the model's name as clients use it.
	Model string
	// Credential is the kind of credential, without any part of it.
	Credential string
}

// Refusals tracks the kinds of edits that upstreams refused while they accepted the requests without them, and limits
// the requests that are sent twice in vain. The zero value is ready to use.
type Refusals struct {
	mu     sync.Mutex
	routes *lru.Cache[Route, struct{}, *refusedRoute]
	kinds  *lru.Cache[ownRoute, struct{}, *refusedKinds]
	shares *lru.Cache[share, struct{}, *float64]

	accepted, refused int // requests that were sent twice, by the result of the second attempt
}

func refusalsOf(s *state.State) *Refusals {
	return state.Part(s, func() *Refusals { return new(Refusals) })
}

// View implements [state.Viewer].
func (f *Refusals) View(v *page.View) { v.Health = append(v.Health, f.health(v.Now)...) }

// ownRoute is a route of one tenant.
type ownRoute struct {
	Route
	tenant sessioncache.Tenant
}

// share identifies a tenant's requests to one upstream.
type share struct {
	tenant   sessioncache.Tenant
	upstream string
}

type refusedRoute struct {
	seen   []refusedOnce
	paused refusedKinds
}

type refusedOnce struct {
	tenant sessioncache.Tenant
	kinds  wire.EditKinds
	at     time.Time
}

// refusedKinds are kinds of edits that are paused.
type refusedKinds struct {
	kinds wire.EditKinds
	until time.Time
}

// at returns the kinds that are paused at a time.
func (k *refusedKinds) at(now time.Time) wire.EditKinds {
	if k == nil || !now.Before(k.until) {
		return 0
	}
	return k.kinds
}

func (k *refusedKinds) pause(kinds wire.EditKinds, now time.Time) {
	*k = refusedKinds{k.at(now) | kinds, now.Add(refusalPause)}
}

// Without returns the kinds of edits that a tenant's request must go without.
func (f *Refusals) Without(r Route, t sessioncache.Tenant, now time.Time) wire.EditKinds {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.routes == nil || f.routes.Len() == 0 {
		return 0
	}
	var k wire.EditKinds
	if e := f.routes.Get(r); e != nil {
		k = e.Value.paused.at(now)
	}
	if e := f.kinds.Get(ownRoute{r, t}); e != nil {
		k |= e.Value.at(now)
	}
	return k
}

// Accepted records that an upstream accepted a request only without some kinds of edits. It returns
// the kinds that are paused for all tenants from now on.
func (f *Refusals) Accepted(
	r Route, t sessioncache.Tenant, kinds wire.EditKinds, now time.Time,
) (paused wire.EditKinds) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pay(t, r.Upstream, 1) // the second attempt was worth it
	f.accepted++
	e := f.route(r)
	e.seen = slices.DeleteFunc(e.seen, func(o refusedOnce) bool { return now.Sub(o.at) > refusalWindow })
	// Two tenants are evidence enough to pause a kind for all. One tenant's conversations pause it
	// for that tenant only.
	sameTenant := 0
	for _, o := range e.seen {
		switch {
		case o.tenant == t && o.kinds.Has(kinds):
			sameTenant++
		case o.tenant != t:
			paused |= o.kinds & kinds
		}
	}
	if sameTenant < ownRefusals { // more refusals of this tenant are no further evidence
		e.seen = append(e.seen, refusedOnce{t, kinds, now})
	}
	if paused != 0 {
		e.paused.pause(paused, now)
	}
	if sameTenant+1 >= ownRefusals {
		f.ownRoute(r, t).pause(kinds, now)
	}
	return paused
}

// Refused records that an upstream refused a request without its edits, too. No tenant is recorded:
// such requests cost nothing.
func (f *Refusals) Refused() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused++
}

// Sent records an edited request of a tenant, which earns a part of another attempt.
func (f *Refusals) Sent(t sessioncache.Tenant, upstream string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shares == nil || f.shares.Get(share{t, upstream}) == nil {
		return // the tenant's share is full
	}
	f.pay(t, upstream, resendShare)
}

// MayResend reports whether a tenant's request may be sent once more, and takes the attempt from
// the tenant's share. Accepted gives a useful attempt back.
func (f *Refusals) MayResend(t sessioncache.Tenant, upstream string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	left := f.share(t, upstream)
	if *left < 1 {
		return false
	}
	*left--
	return true
}

func (f *Refusals) pay(t sessioncache.Tenant, upstream string, tries float64) {
	left := f.share(t, upstream)
	*left = min(*left+tries, resendBurst)
}

func (f *Refusals) share(t sessioncache.Tenant, upstream string) *float64 {
	f.open()
	return found(f.shares, share{t, upstream}, func() *float64 { left := float64(resendBurst); return &left })
}

func (f *Refusals) route(r Route) *refusedRoute {
	f.open()
	return found(f.routes, r, func() *refusedRoute { return new(refusedRoute) })
}

func (f *Refusals) ownRoute(r Route, t sessioncache.Tenant) *refusedKinds {
	f.open()
	return found(f.kinds, ownRoute{r, t}, func() *refusedKinds { return new(refusedKinds) })
}

func (f *Refusals) open() {
	if f.routes == nil {
		f.routes, f.kinds, f.shares = remembered[Route, *refusedRoute](), remembered[ownRoute, *refusedKinds](),
			remembered[share, *float64]()
	}
}

func remembered[K comparable, V any]() *lru.Cache[K, struct{}, V] {
	return lru.New(lru.Options[K, struct{}, V]{Pool: lru.NewPool[struct{}](maxRefusals)})
}

// found returns the value of a key, and creates it if it is missing.
func found[K comparable, V any](c *lru.Cache[K, struct{}, V], k K, make func() V) V {
	if e := c.Get(k); e != nil {
		c.Use(e)
		return e.Value
	}
	return c.Put(k, struct{}{}, make(), 1).Value
}

// health returns the results of requests that were sent twice, nil without any.
func (f *Refusals) health(now time.Time) []page.Health {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.accepted+f.refused == 0 {
		return nil
	}
	h := page.Health{Name: page.Edits, State: page.OK, Note: fmt.Sprintf(
		"requests that the upstream refused, sent once more without our edits: %d accepted, %d refused again", f.accepted,
		f.refused)}
	if f.routes != nil {
		var paused []string
		for e := range f.routes.Oldest() {
			if kinds := e.Value.paused.at(now); kinds != 0 {
				k := &e.Key
				paused = append(paused, fmt.Sprintf("%s for %s at %s with %s until %s", kinds, k.Model, k.Upstream, k.Credential,
					e.Value.paused.until.Format("15:04")))
			}
		}
		if slices.Sort(paused); len(paused) > 0 {
			h.State = page.Slow
			h.Note += "; left out: " + strings.Join(paused[:min(len(paused), shownPauses)], "; ")
		}
	}
	return []page.Health{h}
}

// refusal is the state of the second try of an edited request that the upstream refuses.
type refusal struct {
	route     Route
	additions httpx.Additions // edits that layers behind make
	givenUp   bool            // the edits were taken out of the request
	weighed   bool            // the outcome of the second request is known
}

// resend sends an edited request, and once more without its edits if the upstream refuses it.
type resend struct{ *exchange }

// ServeHTTP implements [httpx.Retrier].
func (s *resend) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	if s.refusal.givenUp {
		s.resent = true
		s.span.Event("llm_cache.resend")
		s.refusal.additions.Off = wire.AllEdits
	}
	return s.send(w, r)
}

// Judge implements [httpx.Judge]. An error without a status may be a refusal, too, as where
// handle_response has made an error of it.
func (s *resend) Judge(a *httpx.Attempt) httpx.Verdict {
	switch t := &s.tap; {
	case a.Err == http.ErrAbortHandler: //nolint:errorlint,err113 // the very value
	case s.refusal.givenUp:
		s.weigh(t.upstreamStatus(a.Status))
	case t.ours, a.Status == 0 && a.Err == nil, !httpx.Refusal(t.upstreamStatus(a.Status)):
	case s.giveUp():
		s.refusal.givenUp, t.dropped = true, true
		return httpx.Reject
	}
	return httpx.Accept
}

// upstreamStatus returns the status of the upstream's answer, before any mapping between it and this handler.
func (t *tap) upstreamStatus(status int) int {
	if upstream := httpx.UpstreamStatus(t.request.Context()); upstream != 0 && !t.ours {
		return upstream
	}
	return status
}

// Ours notes that the answer is not the upstream's.
func (t *tap) Ours() { t.ours = true }

// giveUp takes the edits out of the request. It returns false if the request stays as it is.
func (x *exchange) giveUp() (given bool) {
	e, r := x.Edit, &x.refusal
	if !e.Prompt.Edited && r.additions.Made == 0 {
		return false
	}
	// A tenant may have only so many requests sent twice in vain.
	if !x.site.refused.MayResend(x.Tenant, r.route.Upstream) {
		httpx.ResendsLeftOut.Inc()
		return false
	}
	x.site.guard("giving up edits after a refusal", func() {
		before := e.Prompt.Body
		if e.Prompt.Edited {
			e.Rejected()
		}
		given = r.additions.Made != 0 || !before.Equal(e.Prompt.Body.Bytes())
	})
	if !given { // the edits stay: the model's thinking is bound to them
		e.Cleared()
	}
	return given
}

// weigh notes, once, the status of the response to the request without its edits.
func (x *exchange) weigh(status int) {
	r := &x.refusal
	if r.weighed {
		return
	}
	r.weighed = true
	switch refusals := x.site.refused; {
	case status/100 == 2:
		// The upstream takes the request now: it has refused the edits.
		httpx.Resends.WithLabelValues(httpx.ResendAccepted).Inc()
		x.site.guard("noting that edits were refused", func() {
			kinds := x.Edit.Accepted(r.additions.Made)
			r.additions.Refuse()
			paused := refusals.Accepted(r.route, x.Tenant, kinds, x.site.now())
			x.site.up.Log.Info("the upstream refuses edits", zap.Stringer("kinds", kinds),
				zap.Stringer("left_out_for_an_hour", paused),
				zap.String("model", r.route.Model), zap.String("credential", r.route.Credential), zap.String("session", x.Session))
		})
	case httpx.Refusal(status):
		httpx.Resends.WithLabelValues(httpx.ResendRefused).Inc()
		refusals.Refused()
		x.Edit.Cleared()
	default:
		httpx.Resends.WithLabelValues(httpx.ResendFailed).Inc()
		x.Edit.Cleared()
	}
}
