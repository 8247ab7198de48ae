// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lru

import (
	"container/heap"
	"container/list"
	"sync"
)

// Pool is memory that caches share. One rule decides which entry gives way once the limit
// is exceeded: the least recently used entry of the owner that holds most, if that owner
// holds more than a quarter of the limit; otherwise the least recently used entry of all.
// So an owner may use all the memory that others leave, and cannot push them out.
type Pool[O comparable] struct {
	mu     sync.Mutex
	limit  int64 // 0: none
	bytes  int64
	owners map[O]*owner[O]
	heavy  heaviest[O]
	order  list.List // of member, the most recently used first
}

// fairPart: an owner that holds more than one part in fairPart of the limit gives way
// before all others.
const fairPart = 4

// owner is one owner's part of a pool.
type owner[O comparable] struct {
	name  O
	bytes int64
	order list.List // of member, the most recently used first
	index int       // in the heap
}

// member is an entry of any cache of the pool.
type member interface {
	evict()
	inUse() bool
}

// place is an entry's place in its pool.
type place[O comparable] struct {
	owner   *owner[O]
	at, own *list.Element // in the order of the pool, and of the owner
}

// NewPool returns a pool with a limit in bytes, 0 for none.
func NewPool[O comparable](limit int64) *Pool[O] {
	return &Pool[O]{limit: limit, owners: make(map[O]*owner[O])}
}

// SetLimit changes the limit. Entries beyond it give way at once.
func (p *Pool[O]) SetLimit(limit int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = limit
	p.evict()
}

// Shrink drops entries until the rest fits in so many bytes, or is in use.
func (p *Pool[O]) Shrink(limit int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shrink(limit)
}

// Limit returns the limit in bytes.
func (p *Pool[O]) Limit() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit
}

// Bytes returns the sum of the sizes of all entries.
func (p *Pool[O]) Bytes() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes
}

// The methods below need the lock.

// evict drops entries until the rest fits, or is in use.
func (p *Pool[O]) evict() {
	if p.limit > 0 {
		p.shrink(p.limit)
	}
}

func (p *Pool[O]) shrink(limit int64) {
	for p.bytes > limit {
		m := p.victim(limit)
		if m == nil {
			return
		}
		m.evict()
	}
}

// victim returns the entry that gives way next, nil if all are in use.
func (p *Pool[O]) victim(limit int64) member {
	if o := p.heavy[0]; o.bytes > limit/fairPart {
		for m := range oldest[member](&o.order) {
			if !m.inUse() {
				return m
			}
		}
	}
	for m := range oldest[member](&p.order) {
		if !m.inUse() {
			return m
		}
	}
	return nil
}

func (p *Pool[O]) enter(at *place[O], of O, m member) {
	o := p.owners[of]
	if o == nil {
		o = &owner[O]{name: of}
		p.owners[of] = o
		heap.Push(&p.heavy, o)
	}
	*at = place[O]{o, p.order.PushFront(m), o.order.PushFront(m)}
}

func (p *Pool[O]) use(at *place[O]) {
	p.order.MoveToFront(at.at)
	at.owner.order.MoveToFront(at.own)
}

func (p *Pool[O]) grow(at *place[O], more int64) {
	p.bytes += more
	at.owner.bytes += more
	heap.Fix(&p.heavy, at.owner.index)
}

func (p *Pool[O]) leave(at *place[O]) {
	p.order.Remove(at.at)
	o := at.owner
	if o.order.Remove(at.own); o.order.Len() == 0 {
		heap.Remove(&p.heavy, o.index)
		delete(p.owners, o.name)
	}
}

// heaviest is a heap of owners with the one that holds most at its top.
type heaviest[O comparable] []*owner[O]

func (h heaviest[O]) Len() int           { return len(h) }
func (h heaviest[O]) Less(i, j int) bool { return h[i].bytes > h[j].bytes }
func (h heaviest[O]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *heaviest[O]) Push(x any) {
	o := x.(*owner[O])
	o.index = len(*h)
	*h = append(*h, o)
}

func (h *heaviest[O]) Pop() any {
	old := *h
	o := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return o
}
