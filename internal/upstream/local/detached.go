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

// Detached are the requests that continue without their client. They account for the buffers of all responses,
// since any client may leave.
type Detached struct {
	mu      sync.Mutex
	works   map[workKey]*work
	tenants map[sessioncache.Tenant]*tenantKept
	waiting map[string]int // requests that wait for a slot, by queue
	bytes   int64
	limit   int64 // one tenant may have a quarter
}

// Interface guards
var (
	_ state.Holder    = (*Detached)(nil)
	_ state.Forgetter = (*Detached)(nil)
	_ state.Stopper   = (*Detached)(nil)
)

// DetachedOf returns the detached requests of a state.
func DetachedOf(s *state.State) *Detached {
	return state.Part(s, func() *Detached { return new(Detached) })
}

// Budget implements [state.Holder].
func (*Detached) Budget() memory.Part { return memory.Answers }

// SetLimit implements [state.Holder]. A response without room is not buffered for a retry.
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

type tenantKept struct {
	bytes int64
	works []*work // longest without a client first
}

// of returns a tenant's share, with the lock taken.
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

// tidy drops an empty share, with the lock taken.
func (o *Detached) tidy(t sessioncache.Tenant) {
	if share := o.tenants[t]; share != nil && share.bytes == 0 && len(share.works) == 0 {
		delete(o.tenants, t)
	}
}

func (o *Detached) reserve(t sessioncache.Tenant, n int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.tidy(t)
	share := o.of(t)
	// One tenant gets a quarter, so that none can push all others out.
	if o.bytes+n > o.limit || share.bytes+n > o.limit/4 {
		return false
	}
	o.bytes += n
	share.bytes += n
	return true
}

func (o *Detached) release(t sessioncache.Tenant, n int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bytes -= n
	o.of(t).bytes -= n
	o.tidy(t)
}

// add adds detached work. It returns the work to end: the tenant's oldest if there is too much, or the work itself if
// a request waits for its slot.
func (o *Detached) add(k *work) (surplus *work) {
	o.mu.Lock()
	defer o.mu.Unlock()
	share := o.of(k.rent.tenant)
	o.works[k.key] = k
	share.works = append(share.works, k)
	if len(share.works) > maxDetached {
		surplus = share.works[0]
	}
	if o.waiting[k.queue] > 0 {
		surplus = k
	}
	return surplus
}

func (o *Detached) take(key workKey) *work {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := o.works[key]
	if k != nil {
		o.forget(k)
	}
	return k
}

// yield ends the oldest work of a queue, for a request that waits for its slot. Until the caller has called done, work
// of the queue ends with its client.
func (o *Detached) yield(queue string) (done func()) {
	o.mu.Lock()
	if o.waiting == nil {
		o.waiting = map[string]int{}
	}
	o.waiting[queue]++
	var first *work
	for _, k := range o.works {
		if k.queue == queue && (first == nil || k.left.Before(first.left)) {
			first = k
		}
	}
	o.mu.Unlock()
	if first != nil {
		// After the unlock: giving up removes the work from here.
		first.giveUp()
	}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.waiting[queue]--; o.waiting[queue] == 0 {
			delete(o.waiting, queue)
		}
	}
}

// supersede ends a session's work for other requests: its conversation has moved on.
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
	// Only now, because most requests find no detached work.
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

// Stop implements [state.Stopper]: without a site no client can come back.
func (o *Detached) Stop() {
	o.mu.Lock()
	all := slices.Collect(maps.Values(o.works))
	o.mu.Unlock()
	for _, k := range all {
		k.giveUp()
	}
}

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
