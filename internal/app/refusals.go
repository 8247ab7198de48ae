// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/page"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

const (
	// refusalWindow is the time in which several refusals count together.
	refusalWindow = 10 * time.Minute
	// refusalPause is how long refused kinds of edits are left out.
	refusalPause = time.Hour
	// ownRefusals is how many conversations of one tenant have its other ones go without
	// the refused kinds, too.
	ownRefusals = 3
	// maxRefusals bounds the routes and the tenants that are remembered.
	maxRefusals = 4096
	// shownPauses bounds the routes that are listed on the page.
	shownPauses = 10

	// resendBurst is how many requests of a tenant may be sent twice in vain before the
	// share counts, and resendShare the share of its edited requests that may be.
	resendBurst = 5
	resendShare = 0.1
)

// Route is what decides whether an upstream takes an edit: the same upstream may take it of
// another model, or with another kind of credential.
type Route struct {
	// Upstream names the upstream as sessions do.
	Upstream string
	// Model is the model, as clients call it.
	Model string
	// Credential is the kind of credential, which tells nothing about it.
	Credential string
}

// Refusals remembers which edits upstreams have refused while they took the requests
// without them, and how many requests were sent twice in vain. The zero value is ready.
type Refusals struct {
	mu     sync.Mutex
	routes *lru.Cache[Route, struct{}, *refusedRoute]
	own    *lru.Cache[ownRoute, struct{}, *refusedKinds]
	shares *lru.Cache[share, struct{}, *float64]

	accepted, refused int // requests that were sent twice, by what came of the second
}

// ownRoute is a route of one tenant.
type ownRoute struct {
	Route
	tenant sessioncache.Tenant
}

// share is what a tenant sends to one upstream.
type share struct {
	tenant   sessioncache.Tenant
	upstream string
}

// refusedRoute is what is known of a route.
type refusedRoute struct {
	seen   []refusedOnce
	paused refusedKinds
}

// refusedOnce is one conversation in which kinds of edits were refused.
type refusedOnce struct {
	tenant sessioncache.Tenant
	kinds  wire.EditKinds
	at     time.Time
}

// refusedKinds are kinds of edits that are left out for a while.
type refusedKinds struct {
	kinds wire.EditKinds
	until time.Time
}

// at returns the kinds that are left out at a time.
func (k *refusedKinds) at(now time.Time) wire.EditKinds {
	if k == nil || !now.Before(k.until) {
		return 0
	}
	return k.kinds
}

// pause leaves kinds out for a while.
func (k *refusedKinds) pause(kinds wire.EditKinds, now time.Time) {
	*k = refusedKinds{k.at(now) | kinds, now.Add(refusalPause)}
}

// Without returns the kinds of edits that a request of a tenant is to go without.
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
	if e := f.own.Get(ownRoute{r, t}); e != nil {
		k |= e.Value.at(now)
	}
	return k
}

// Accepted notes that an upstream took a request only without some kinds of edits. Two
// conversations of different tenants have everybody's go without these kinds, several of one
// tenant have only its own. It returns the kinds that everybody goes without from now on.
func (f *Refusals) Accepted(r Route, t sessioncache.Tenant, kinds wire.EditKinds, now time.Time) (paused wire.EditKinds) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pay(t, r.Upstream, 1) // it was worth sending
	f.accepted++
	e := f.route(r)
	e.seen = slices.DeleteFunc(e.seen, func(o refusedOnce) bool { return now.Sub(o.at) > refusalWindow })
	own := 0
	for _, o := range e.seen {
		switch {
		case o.tenant == t && o.kinds.Has(kinds):
			own++
		case o.tenant != t:
			paused |= o.kinds & kinds
		}
	}
	if own < ownRefusals { // else there is nothing more to learn from this tenant
		e.seen = append(e.seen, refusedOnce{t, kinds, now})
	}
	if paused != 0 {
		e.paused.pause(paused, now)
	}
	if own+1 >= ownRefusals {
		f.ownRoute(r, t).pause(kinds, now)
	}
	return paused
}

// Refused notes that an upstream refused a request without its edits, too. Nothing is kept of
// whose it was: requests like that cost nothing.
func (f *Refusals) Refused() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused++
}

// Sent notes that a tenant has sent an edited request, which earns a part of another try.
func (f *Refusals) Sent(t sessioncache.Tenant, upstream string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shares == nil || f.shares.Get(share{t, upstream}) == nil {
		return // as much as can be is left already
	}
	f.pay(t, upstream, resendShare)
}

// MayResend reports whether a request of a tenant may be sent once more, and takes that
// from the tenant's share. A try that was worth it is given back.
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
	return found(f.own, ownRoute{r, t}, func() *refusedKinds { return new(refusedKinds) })
}

func (f *Refusals) open() {
	if f.routes == nil {
		f.routes, f.own, f.shares = remembered[Route, *refusedRoute](), remembered[ownRoute, *refusedKinds](), remembered[share, *float64]()
	}
}

// remembered returns a cache of up to maxRefusals entries.
func remembered[K comparable, V any]() *lru.Cache[K, struct{}, V] {
	return lru.New(lru.Options[K, struct{}, V]{Pool: lru.NewPool[struct{}](maxRefusals)})
}

// found returns what stands under a key, made anew where nothing does.
func found[K comparable, V any](c *lru.Cache[K, struct{}, V], k K, make func() V) V {
	if e := c.Get(k); e != nil {
		c.Use(e)
		return e.Value
	}
	return c.Put(k, struct{}{}, make(), 1).Value
}

// health says what became of requests that were sent twice, nothing where none were.
func (f *Refusals) health(now time.Time) []page.Health {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.accepted+f.refused == 0 {
		return nil
	}
	h := page.Health{Name: page.Edits, State: page.OK, Note: fmt.Sprintf(
		"requests that the upstream refused, sent once more without our edits: %d accepted, %d refused again", f.accepted, f.refused)}
	if f.routes != nil {
		var paused []string
		for e := range f.routes.Oldest() {
			if kinds := e.Value.paused.at(now); kinds != 0 {
				k := &e.Key
				paused = append(paused, fmt.Sprintf("%s for %s at %s with %s until %s", kinds, k.Model, k.Upstream, k.Credential, e.Value.paused.until.Format("15:04")))
			}
		}
		if slices.Sort(paused); len(paused) > 0 {
			h.State = page.Slow
			h.Note += "; left out: " + strings.Join(paused[:min(len(paused), shownPauses)], "; ")
		}
	}
	return []page.Health{h}
}
