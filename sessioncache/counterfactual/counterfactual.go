// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package counterfactual is the account of a cache that there is not: the one that the
// client's own bytes would have left.
package counterfactual

import (
	"slices"
	"time"
	"unsafe"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/packed"
)

// Cache is what an upstream's cache would hold for a session had it been sent
// the client's own bytes all along.
type Cache struct {
	entries []Entry
}

// Entry is one such prefix.
type Entry struct {
	// Prefix is a hash of the prefix, of the model, and of what else the
	// upstream's cache depends on.
	Prefix uint64
	// Blocks is the number of blocks in it, tools and system prompt included.
	Blocks int
	// Tokens is its length.
	Tokens int64
	// At is when it was last written or read, TTL how long it lives from then
	// on, 0 for ever.
	At time.Time
	// TTL: see At.
	TTL time.Duration
}

// maxEntries bounds the prefixes of a session: four for each of its conversations.
const maxEntries = 64

// Clone copies what has been noted.
func (c *Cache) Clone() *Cache {
	return &Cache{slices.Clone(c.entries)}
}

// Live reports whether the entry can be found at a time.
func (e *Entry) Live(at time.Time) bool { return e.TTL == 0 || at.Sub(e.At) < e.TTL }

// Entries are the prefixes that have been noted, live or not.
func (c *Cache) Entries() []Entry { return c.entries }

// Put notes a prefix that was written or read. One that lives longer keeps its
// lifetime.
func (c *Cache) Put(e Entry) {
	oldest := 0
	for i := range c.entries {
		old := &c.entries[i]
		if old.Prefix == e.Prefix && old.Blocks == e.Blocks {
			if old.Live(e.At) && (old.TTL == 0 || old.TTL > e.TTL && e.TTL != 0) {
				e.TTL = old.TTL
			}
			*old = e
			return
		}
		if old.At.Before(c.entries[oldest].At) {
			oldest = i
		}
	}
	if len(c.entries) == maxEntries {
		c.entries[oldest] = e
		return
	}
	c.entries = append(c.entries, e)
}

// Merge takes in what another process has noted.
func (c *Cache) Merge(other *Cache) {
	for _, e := range other.entries {
		i := slices.IndexFunc(c.entries, func(o Entry) bool { return o.Prefix == e.Prefix && o.Blocks == e.Blocks })
		if i < 0 || e.At.After(c.entries[i].At) {
			c.Put(e)
		}
	}
}

// Size is the memory that the entries take, in bytes.
func (c *Cache) Size() int64 {
	if c == nil {
		return 0
	}
	return int64(cap(c.entries)) * int64(unsafe.Sizeof(Entry{}))
}

// Snapshot writes the entries, of a session that began at some time.
func (c *Cache) Snapshot(w *packed.Writer, began time.Time) {
	w.Uint(uint64(len(c.entries)))
	for i := range c.entries {
		e := &c.entries[i]
		w.Fixed(e.Prefix)
		w.Uint(uint64(e.Blocks))
		w.Int(e.Tokens)
		w.Time(e.At, began)
		w.Int(int64(e.TTL))
	}
}

// Restore reads what [Cache.Snapshot] wrote.
func (c *Cache) Restore(r *packed.Reader, began time.Time) {
	for range r.Count(8) {
		c.entries = append(c.entries, Entry{
			Prefix: r.Fixed(), Blocks: r.Small(1 << 30), Tokens: r.Int(), At: r.Time(began), TTL: time.Duration(r.Int()),
		})
	}
	if len(c.entries) > maxEntries {
		r.Fail()
	}
}
