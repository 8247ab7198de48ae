// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"maps"
	"slices"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/memory"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// maxDetached bounds the requests of one tenant that go on without a client.
const maxDetached = 8

// Detached are the requests that go on without their client, and the account of
// what is kept of all answers in case that they will.
type Detached struct {
	mu      sync.Mutex
	works   map[workKey]*work
	tenants map[sessioncache.Tenant]*tenantKept
	bytes   int64
	limit   int64 // one tenant may have a quarter
}

// Interface guards
var (
	_ state.Holder    = (*Detached)(nil)
	_ state.Forgetter = (*Detached)(nil)
	_ state.Stopper   = (*Detached)(nil)
)

// DetachedOf returns the requests of a state that go on without their client.
func DetachedOf(s *state.State) *Detached {
	return state.Part(s, func() *Detached { return new(Detached) })
}

// Budget implements [state.Holder].
func (*Detached) Budget() memory.Part { return memory.Answers }

// SetLimit implements [state.Holder]. An answer that finds no room is not kept.
func (o *Detached) SetLimit(limit int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.limit = limit
}

// Bytes implements [state.Holder].
func (o *Detached) Bytes() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}

// tenantKept is one tenant's share.
type tenantKept struct {
	bytes int64
	works []*work // the one without a client for longest first
}

// of returns a tenant's share. The lock is held.
func (o *Detached) of(t sessioncache.Tenant) *tenantKept {
	share := o.tenants[t]
	if share == nil {
		if o.tenants == nil {
			o.tenants, o.works = map[sessioncache.Tenant]*tenantKept{}, map[workKey]*work{}
		}
		share = new(tenantKept)
		o.tenants[t] = share
	}
	return share
}

// tidy forgets a share of nothing. The lock is held.
func (o *Detached) tidy(t sessioncache.Tenant) {
	if share := o.tenants[t]; share != nil && share.bytes == 0 && len(share.works) == 0 {
		delete(o.tenants, t)
	}
}

// reserve accounts for bytes that are about to be kept, and reports whether they may
// be.
func (o *Detached) reserve(t sessioncache.Tenant, n int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.tidy(t)
	share := o.of(t)
	if o.bytes+n > o.limit || share.bytes+n > o.limit/4 {
		return false
	}
	o.bytes += n
	share.bytes += n
	return true
}

// release gives back what was reserved.
func (o *Detached) release(t sessioncache.Tenant, n int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bytes -= n
	o.of(t).bytes -= n
	o.tidy(t)
}

// add takes one in. It returns the oldest of its tenant if that has too many.
func (o *Detached) add(k *work) (oldest *work) {
	o.mu.Lock()
	defer o.mu.Unlock()
	share := o.of(k.rent.tenant)
	o.works[k.key] = k
	share.works = append(share.works, k)
	if len(share.works) > maxDetached {
		oldest = share.works[0]
	}
	return oldest
}

// take gives one away, nil if there is none.
func (o *Detached) take(key workKey) *work {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := o.works[key]
	if k != nil {
		o.forget(k)
	}
	return k
}

// yield ends the one of a queue that was left first: a request waits for its slot.
func (o *Detached) yield(queue string) {
	o.mu.Lock()
	var first *work
	for _, k := range o.works {
		if k.queue == queue && (first == nil || k.left.Before(first.left)) {
			first = k
		}
	}
	o.mu.Unlock()
	if first != nil {
		first.giveUp()
	}
}

// supersede ends those of a session that are for another request of a client: its conversation
// goes on.
func (o *Detached) supersede(t sessioncache.Tenant, asked Asked) {
	if asked.Session == "" {
		return
	}
	o.mu.Lock()
	var all []*work
	if share := o.tenants[t]; share != nil {
		for _, k := range share.works {
			if k.asked.Session == asked.Session {
				all = append(all, k)
			}
		}
	}
	o.mu.Unlock()
	if len(all) == 0 {
		return
	}
	origin := xxh3.Hash(asked.Body)
	for _, k := range all {
		if k.origin != origin {
			k.giveUp()
		}
	}
}

// ForgetSession implements [state.Forgetter].
func (o *Detached) ForgetSession(x *sessioncache.Session) {
	o.mu.Lock()
	var all []*work
	if share := o.tenants[x.Tenant()]; share != nil {
		for _, k := range share.works {
			if k.asked.Session == x.ID() {
				all = append(all, k)
			}
		}
	}
	o.mu.Unlock()
	for _, k := range all {
		k.giveUp()
	}
}

// Stop implements [state.Stopper]: there is no site any more that a client could come back to.
func (o *Detached) Stop() {
	o.mu.Lock()
	all := slices.Collect(maps.Values(o.works))
	o.mu.Unlock()
	for _, k := range all {
		k.giveUp()
	}
}

// remove forgets one.
func (o *Detached) remove(k *work) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forget(k)
}

func (o *Detached) forget(k *work) {
	if o.works[k.key] == k { // else another request like it was left
		delete(o.works, k.key)
	}
	if share := o.tenants[k.rent.tenant]; share != nil {
		share.works = slices.DeleteFunc(share.works, func(other *work) bool { return other == k })
	}
	o.tidy(k.rent.tenant)
}
