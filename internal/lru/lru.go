// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package lru keeps values within bounds of bytes and of time, and divides the memory
// fairly among their owners. Caches of several kinds may share one [Pool].
package lru

import (
	"container/heap"
	"container/list"
	"iter"
	"sync"
	"time"
	"weak"
)

// Options configure a cache.
type Options[K, O comparable, V any] struct {
	// Pool is the memory of the cache. Default: a pool of its own without a limit.
	Pool *Pool[O]
	// TTL is the lifetime of an entry after its last use. Default: no limit.
	TTL time.Duration
	// Now is the clock for TTL. Default: time.Now.
	Now func() time.Time
	// InUse reports an entry that must neither give way nor expire. Optional.
	InUse func(*Entry[K, O, V]) bool
	// Dropped receives each entry that leaves the cache, for any reason, under the lock. Optional.
	Dropped func(*Entry[K, O, V])
}

// Cache stores values by keys. Its methods, [Cache.Lock] apart, need its lock, which all
// caches of one pool share; a cache without a pool and without a TTL may be guarded by
// any other lock.
type Cache[K, O comparable, V any] struct {
	options Options[K, O, V]
	entries map[K]*Entry[K, O, V]
	order   list.List // of *Entry, the most recently used first
	bytes   int64
	swept   bool // a timer for the next expiry is set
}

// Entry is one value.
type Entry[K, O comparable, V any] struct {
	// Key, Owner and Value are the arguments of [Cache.Put]. The value may be changed.
	Key   K
	Owner O
	Value V

	cache *Cache[K, O, V]
	size  int64
	used  time.Time // only in caches with a TTL
	// Its places: in the order of the cache, of the pool and of its owner there.
	at    *list.Element
	place place[O]
}

// Size is the entry's size in the account.
func (e *Entry[K, O, V]) Size() int64 { return e.size }

// Used is the time of the last use, in a cache with a TTL.
func (e *Entry[K, O, V]) Used() time.Time { return e.used }

// Expires is the time at which the entry is forgotten unless it is used, in a cache with
// a TTL.
func (e *Entry[K, O, V]) Expires() time.Time { return e.used.Add(e.cache.options.TTL) }

// evict implements [member].
func (e *Entry[K, O, V]) evict() { e.cache.Drop(e) }

// inUse implements [member].
func (e *Entry[K, O, V]) inUse() bool {
	return e.cache.options.InUse != nil && e.cache.options.InUse(e)
}

// New returns an empty cache.
func New[K, O comparable, V any](o Options[K, O, V]) *Cache[K, O, V] {
	if o.Pool == nil {
		o.Pool = NewPool[O](0)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Cache[K, O, V]{options: o, entries: make(map[K]*Entry[K, O, V])}
}

// Lock locks the pool of the cache.
func (c *Cache[K, O, V]) Lock() { c.options.Pool.mu.Lock() }

// Unlock unlocks it.
func (c *Cache[K, O, V]) Unlock() { c.options.Pool.mu.Unlock() }

// Get returns the entry of a key, nil if there is none. It does not count as a use.
func (c *Cache[K, O, V]) Get(k K) *Entry[K, O, V] {
	e := c.entries[k]
	if e != nil && c.options.TTL > 0 && c.expired(e, c.options.Now()) {
		c.Drop(e)
		return nil
	}
	return e
}

// Put adds a value as the most recently used one, in place of the entry that has its key.
// Other entries give way to it, see [Pool]; a value larger than the pool is dropped at once.
func (c *Cache[K, O, V]) Put(k K, of O, v V, size int64) *Entry[K, O, V] {
	if before := c.entries[k]; before != nil {
		c.Drop(before)
	}
	e := &Entry[K, O, V]{Key: k, Owner: of, Value: v, cache: c}
	c.entries[k] = e
	p := c.options.Pool
	o := p.owners[of]
	if o == nil {
		o = &owner[O]{name: of}
		p.owners[of] = o
		heap.Push(&p.heavy, o)
	}
	e.at, e.place = c.order.PushFront(e), place[O]{o, p.order.PushFront(e), o.order.PushFront(e)}
	if c.options.TTL > 0 {
		e.used = c.options.Now()
	}
	c.Resize(e, size)
	// It would push out all others before itself.
	if p.limit > 0 && size > p.limit {
		c.Drop(e)
	}
	p.evict()
	if c.options.TTL > 0 && !c.swept {
		c.swept = true
		c.sweep(c.options.TTL)
	}
	return e
}

// Use makes an entry the most recently used one.
func (c *Cache[K, O, V]) Use(e *Entry[K, O, V]) {
	if c.options.TTL > 0 {
		e.used = c.options.Now()
	}
	c.order.MoveToFront(e.at)
	c.options.Pool.order.MoveToFront(e.place.at)
	e.place.owner.order.MoveToFront(e.place.inOwner)
}

// UsedAt sets the time of an entry's last use, which may lie before the cache was made.
func (c *Cache[K, O, V]) UsedAt(e *Entry[K, O, V], at time.Time) { e.used = at }

// Resize accounts for another size of an entry. Nothing gives way to it before the next [Cache.Put].
func (c *Cache[K, O, V]) Resize(e *Entry[K, O, V], size int64) {
	more := size - e.size
	e.size = size
	c.bytes += more
	c.options.Pool.grow(e.place.owner, more)
}

// Drop removes an entry. A second call does nothing.
func (c *Cache[K, O, V]) Drop(e *Entry[K, O, V]) {
	if e.at == nil {
		return
	}
	c.bytes -= e.size
	p, o := c.options.Pool, e.place.owner
	p.grow(o, -e.size)
	p.order.Remove(e.place.at)
	if o.order.Remove(e.place.inOwner); o.order.Len() == 0 {
		heap.Remove(&p.heavy, o.index)
		delete(p.owners, o.name)
	}
	delete(c.entries, e.Key)
	c.order.Remove(e.at)
	e.at = nil
	if c.options.Dropped != nil {
		c.options.Dropped(e)
	}
}

// Clear drops all entries.
func (c *Cache[K, O, V]) Clear() {
	for e := range c.Oldest() {
		c.Drop(e)
	}
}

// SetTTL changes the lifetime of entries.
func (c *Cache[K, O, V]) SetTTL(d time.Duration) {
	c.options.TTL = d
	c.Expire()
}

// Limit is the limit of the pool in bytes, 0 for none.
func (c *Cache[K, O, V]) Limit() int64 { return c.options.Pool.limit }

// Len is the number of entries.
func (c *Cache[K, O, V]) Len() int { return len(c.entries) }

// Bytes is the sum of the sizes of the entries.
func (c *Cache[K, O, V]) Bytes() int64 { return c.bytes }

// BytesOf is the sum of the sizes of an owner's entries in the pool.
func (c *Cache[K, O, V]) BytesOf(of O) int64 {
	if o := c.options.Pool.owners[of]; o != nil {
		return o.bytes
	}
	return 0
}

// Oldest yields the entries, the least recently used first. The entry that was yielded
// may be dropped.
func (c *Cache[K, O, V]) Oldest() iter.Seq[*Entry[K, O, V]] { return oldest[*Entry[K, O, V]](&c.order) }

// OldestOf does the same for the entries of one owner.
func (c *Cache[K, O, V]) OldestOf(of O) iter.Seq[*Entry[K, O, V]] {
	return func(yield func(*Entry[K, O, V]) bool) {
		o := c.options.Pool.owners[of]
		if o == nil {
			return
		}
		for m := range oldest[any](&o.order) {
			if e, ok := m.(*Entry[K, O, V]); ok && e.cache == c && !yield(e) {
				return
			}
		}
	}
}

func oldest[E any](order *list.List) iter.Seq[E] {
	return func(yield func(E) bool) {
		for at := order.Back(); at != nil; {
			before := at.Prev()
			if !yield(at.Value.(E)) {
				return
			}
			at = before
		}
	}
}

// Heaviest returns the owner with the most bytes of the pool, if there is any owner.
func (c *Cache[K, O, V]) Heaviest() (of O, ok bool) {
	heavy := c.options.Pool.heavy
	if len(heavy) == 0 {
		return of, false
	}
	return heavy[0].name, true
}

// Owners yields the owners in the pool, in no order.
func (c *Cache[K, O, V]) Owners() iter.Seq[O] {
	return func(yield func(O) bool) {
		for of := range c.options.Pool.owners {
			if !yield(of) {
				return
			}
		}
	}
}

func (c *Cache[K, O, V]) expired(e *Entry[K, O, V], now time.Time) bool {
	return now.Sub(e.used) >= c.options.TTL && !e.inUse()
}

// Expire drops the expired entries at once; a timer does so later. It returns the time until
// the next entry may expire, 0 without entries.
func (c *Cache[K, O, V]) Expire() time.Duration {
	if c.options.TTL <= 0 {
		return 0
	}
	now := c.options.Now()
	for e := range c.Oldest() {
		if left := e.Expires().Sub(now); left > 0 {
			return left
		}
		if c.expired(e, now) {
			c.Drop(e)
		}
	}
	if c.Len() > 0 { // all of them in use
		// They expire once they are released, so look again later.
		return c.options.TTL
	}
	return 0
}

// sweep sets a timer that drops expired entries, and runs again as long as there are any.
func (c *Cache[K, O, V]) sweep(after time.Duration) {
	// Prompts must not stay in memory beyond their lifetime, even without any further request. The
	// timer must not keep an abandoned cache alive.
	cache := weak.Make(c)
	time.AfterFunc(after, func() {
		c := cache.Value()
		if c == nil {
			return
		}
		c.Lock()
		defer c.Unlock()
		if next := c.Expire(); next > 0 {
			c.sweep(next)
		} else {
			c.swept = false
		}
	})
}

// Pool is memory that caches share. Once the limit is exceeded, the least recently used entry of the owner
// with the most bytes gives way, if that owner has more than a quarter of the limit; otherwise the least
// recently used entry of all.
type Pool[O comparable] struct {
	mu     sync.Mutex
	limit  int64 // 0: none
	bytes  int64
	owners map[O]*owner[O]
	heavy  heaviest[O]
	order  list.List // of member, the most recently used first
}

// fairPart is the part of the limit, as a divisor, that an owner may fill without giving way first.
const fairPart = 4

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
	owner       *owner[O]
	at, inOwner *list.Element // in the order of the pool, and of the owner
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
	// An owner may use all the memory that others leave, and cannot push them out.
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

func (p *Pool[O]) grow(o *owner[O], more int64) {
	p.bytes += more
	o.bytes += more
	heap.Fix(&p.heavy, o.index)
}

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
