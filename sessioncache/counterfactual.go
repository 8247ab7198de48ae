// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

// The counterfactual cache: the upstream's cache as the client's own bytes would have left it.

import (
	"slices"
	"time"
)

// CounterfactualCache models the upstream's cache for a session, had all requests gone out
// unmodified.
type CounterfactualCache struct {
	// Entries are all cached prefixes, live or not.
	Entries []CounterfactualEntry
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
	return &CounterfactualCache{slices.Clone(c.Entries)}
}

// Live reports whether the entry can be found at a time.
func (e *CounterfactualEntry) Live(at time.Time) bool { return e.TTL == 0 || at.Sub(e.At) < e.TTL }

// Put records a prefix that was written or read.
func (c *CounterfactualCache) Put(e CounterfactualEntry) {
	oldest := 0
	for i := range c.Entries {
		old := &c.Entries[i]
		if old.Prefix == e.Prefix && old.Blocks == e.Blocks {
			// A live entry keeps the longer lifetime.
			if old.Live(e.At) && (old.TTL == 0 || old.TTL > e.TTL && e.TTL != 0) {
				e.TTL = old.TTL
			}
			*old = e
			return
		}
		if old.At.Before(c.Entries[oldest].At) {
			oldest = i
		}
	}
	// The least recently used entry makes room.
	if len(c.Entries) == maxEntries {
		c.Entries[oldest] = e
		return
	}
	c.Entries = append(c.Entries, e)
}

// Merge adds the entries of another process, the newer of two counting.
func (c *CounterfactualCache) Merge(other *CounterfactualCache) {
	for _, e := range other.Entries {
		i := slices.IndexFunc(c.Entries, func(o CounterfactualEntry) bool {
			return o.Prefix == e.Prefix &&
				o.Blocks == e.Blocks
		})
		if i < 0 || e.At.After(c.Entries[i].At) {
			c.Put(e)
		}
	}
}

// Snapshot writes the entries of a session that began at a time.
func (c *CounterfactualCache) Snapshot(w *PackedWriter, began time.Time) {
	w.Uint(uint64(len(c.Entries)))
	for i := range c.Entries {
		e := &c.Entries[i]
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
		c.Entries = append(c.Entries, CounterfactualEntry{
			Prefix: r.Fixed(), Blocks: r.Small(1 << 30), Tokens: r.Int(), At: r.Time(began), TTL: time.Duration(r.Int()),
		})
	}
	if len(c.Entries) > maxEntries {
		r.Fail()
	}
}
