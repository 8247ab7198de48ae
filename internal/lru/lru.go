// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package lru keeps account of values by their size in bytes, by who owns them and
// by when they were last used. What is to go when there is no more room, its users
// say: they ask for the oldest of all, of an owner, or of the owner that holds most.
package lru

import (
	"container/heap"
	"container/list"
	"iter"
)

// Cache holds values by keys. It is used by one goroutine at a time.
type Cache[K, O comparable, V any] struct {
	entries map[K]*Entry[K, O, V]
	owners  map[O]*owner[O]
	heavy   heaviest[O]
	order   list.List // of *Entry, the one used last first
	bytes   int64
}

// Entry is one value.
type Entry[K, O comparable, V any] struct {
	// Key, Owner and Value are what was put. The value may be changed.
	Key   K
	Owner O
	Value V

	size    int64
	at, own *list.Element // in the order of all, and of the owner's
}

// Size is the size that the entry has in the account.
func (e *Entry[K, O, V]) Size() int64 { return e.size }

// owner is who holds entries.
type owner[O comparable] struct {
	name  O
	bytes int64
	order list.List // of *Entry, the one used last first
	at    int       // in the heap
}

// New returns an empty cache.
func New[K, O comparable, V any]() *Cache[K, O, V] {
	return &Cache[K, O, V]{entries: make(map[K]*Entry[K, O, V]), owners: make(map[O]*owner[O])}
}

// Get returns the entry of a key, nil if there is none. It does not count as a use.
func (c *Cache[K, O, V]) Get(k K) *Entry[K, O, V] { return c.entries[k] }

// Put takes a value in as the one that was used last, in the place of the one that
// has its key.
func (c *Cache[K, O, V]) Put(k K, of O, v V, size int64) *Entry[K, O, V] {
	if before := c.entries[k]; before != nil {
		c.Drop(before)
	}
	o := c.owners[of]
	if o == nil {
		o = &owner[O]{name: of}
		c.owners[of] = o
		heap.Push(&c.heavy, o)
	}
	e := &Entry[K, O, V]{Key: k, Owner: of, Value: v}
	e.at, e.own = c.order.PushFront(e), o.order.PushFront(e)
	c.entries[k] = e
	c.Resize(e, size)
	return e
}

// Use makes an entry the one that was used last.
func (c *Cache[K, O, V]) Use(e *Entry[K, O, V]) {
	c.order.MoveToFront(e.at)
	c.owners[e.Owner].order.MoveToFront(e.own)
}

// Resize accounts for another size of an entry.
func (c *Cache[K, O, V]) Resize(e *Entry[K, O, V], size int64) {
	o, more := c.owners[e.Owner], size-e.size
	e.size = size
	o.bytes += more
	c.bytes += more
	heap.Fix(&c.heavy, o.at)
}

// Drop takes an entry out. One that is out already stays out.
func (c *Cache[K, O, V]) Drop(e *Entry[K, O, V]) {
	if c.entries[e.Key] != e {
		return
	}
	c.Resize(e, 0)
	delete(c.entries, e.Key)
	c.order.Remove(e.at)
	o := c.owners[e.Owner]
	if o.order.Remove(e.own); o.order.Len() == 0 {
		heap.Remove(&c.heavy, o.at)
		delete(c.owners, o.name)
	}
}

// Len is the number of entries.
func (c *Cache[K, O, V]) Len() int { return len(c.entries) }

// Bytes is the sum of the sizes of the entries.
func (c *Cache[K, O, V]) Bytes() int64 { return c.bytes }

// BytesOf is what an owner holds of it.
func (c *Cache[K, O, V]) BytesOf(of O) int64 {
	if o := c.owners[of]; o != nil {
		return o.bytes
	}
	return 0
}

// Oldest yields the entries, the one not used for longest first. The one that was
// yielded may be dropped.
func (c *Cache[K, O, V]) Oldest() iter.Seq[*Entry[K, O, V]] { return oldest[K, O, V](&c.order) }

// OldestOf does the same for those of one owner.
func (c *Cache[K, O, V]) OldestOf(of O) iter.Seq[*Entry[K, O, V]] {
	if o := c.owners[of]; o != nil {
		return oldest[K, O, V](&o.order)
	}
	return func(func(*Entry[K, O, V]) bool) {}
}

func oldest[K, O comparable, V any](order *list.List) iter.Seq[*Entry[K, O, V]] {
	return func(yield func(*Entry[K, O, V]) bool) {
		for at := order.Back(); at != nil; {
			before := at.Prev()
			if !yield(at.Value.(*Entry[K, O, V])) {
				return
			}
			at = before
		}
	}
}

// Heaviest returns the owner that holds most, of those that hold anything.
func (c *Cache[K, O, V]) Heaviest() (of O, ok bool) {
	if len(c.heavy) == 0 {
		return of, false
	}
	return c.heavy[0].name, true
}

// Owners yields the owners, in no order.
func (c *Cache[K, O, V]) Owners() iter.Seq[O] {
	return func(yield func(O) bool) {
		for of := range c.owners {
			if !yield(of) {
				return
			}
		}
	}
}

// heaviest is a heap of owners with the one that holds most at its top.
type heaviest[O comparable] []*owner[O]

func (h heaviest[O]) Len() int           { return len(h) }
func (h heaviest[O]) Less(i, j int) bool { return h[i].bytes > h[j].bytes }
func (h heaviest[O]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *heaviest[O]) Push(x any) {
	o := x.(*owner[O])
	o.at = len(*h)
	*h = append(*h, o)
}

func (h *heaviest[O]) Pop() any {
	old := *h
	o := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return o
}
