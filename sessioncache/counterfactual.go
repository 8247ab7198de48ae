// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

// The counterfactual cache: the upstream's cache as the client's own bytes would have left it.

import (
	"slices"
	"time"
	"unsafe"
)

// CounterfactualCache models the upstream's cache for a session, had all requests gone out
// unmodified.
type CounterfactualCache struct {
	entries []CounterfactualEntry
}

// CounterfactualEntry is one cached prefix.
type CounterfactualEntry struct {
	// Prefix is a hash of the prefix, of the model, and of everything else that the upstream's
	// cache depends on.
	Prefix uint64
	// Blocks is the number of blocks in it, tools and system prompt included.
	Blocks int
	// Tokens is its length.
	Tokens int64
	// At is when the entry was last written or read, and TTL its lifetime from then on, 0 for ever.
	At time.Time
	// TTL: see At.
	TTL time.Duration
}

// maxEntries bounds the prefixes of a session: four for each of its conversations.
const maxEntries = 64

// Clone copies the cache.
func (c *CounterfactualCache) Clone() *CounterfactualCache {
	return &CounterfactualCache{slices.Clone(c.entries)}
}

// Live reports whether the entry can be found at a time.
func (e *CounterfactualEntry) Live(at time.Time) bool { return e.TTL == 0 || at.Sub(e.At) < e.TTL }

// Entries returns all prefixes, live or not.
func (c *CounterfactualCache) Entries() []CounterfactualEntry { return c.entries }

// Put records a prefix that was written or read.
func (c *CounterfactualCache) Put(e CounterfactualEntry) {
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
	// The least recently used entry makes room.
	if len(c.entries) == maxEntries {
		c.entries[oldest] = e
		return
	}
	c.entries = append(c.entries, e)
	// A live entry keeps the longer lifetime.
}

// Merge adds the entries of another process, the newer of two counting.
func (c *CounterfactualCache) Merge(other *CounterfactualCache) {
	for _, e := range other.entries {
		i := slices.IndexFunc(c.entries, func(o CounterfactualEntry) bool { return o.Prefix == e.Prefix && o.Blocks == e.Blocks })
		if i < 0 || e.At.After(c.entries[i].At) {
			c.Put(e)
		}
	}
}

// Size is the memory of the entries, in bytes.
func (c *CounterfactualCache) Size() int64 {
	if c == nil {
		return 0
	}
	return int64(cap(c.entries)) * int64(unsafe.Sizeof(CounterfactualEntry{}))
}

// Snapshot writes the entries of a session that began at a time.
func (c *CounterfactualCache) Snapshot(w *PackedWriter, began time.Time) {
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

// Restore reads the entries that [CounterfactualCache.Snapshot] wrote.
func (c *CounterfactualCache) Restore(r *PackedReader, began time.Time) {
	for range r.Count(8) {
		c.entries = append(c.entries, CounterfactualEntry{
			Prefix: r.Fixed(), Blocks: r.Small(1 << 30), Tokens: r.Int(), At: r.Time(began), TTL: time.Duration(r.Int()),
		})
	}
	if len(c.entries) > maxEntries {
		r.Fail()
	}
}
