// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

// The places in a conversation at which the upstream has cache entries.

import (
	"slices"
	"time"
	"unsafe"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// End is a place in a conversation at which the upstream has a cache entry.
type End struct {
	// Blocks is the number of message blocks before it.
	Blocks int
	// At is when the entry was last written or read.
	At time.Time
}

// most bounds the remembered entries.
const most = 512

// Ends are the cache entries of one conversation.
type Ends []End

// Mark records that an entry was written or read at a block count.
func (e *Ends) Mark(blocks int, at time.Time) {
	oldest := 0
	for i := range *e {
		end := &(*e)[i]
		if end.Blocks == blocks {
			end.At = at
			return
		}
		if end.At.Before((*e)[oldest].At) {
			oldest = i
		}
	}
	// The least recently used entry makes room.
	if len(*e) == most {
		(*e)[oldest] = End{blocks, at}
		return
	}
	*e = append(*e, End{blocks, at})
}

// Marked returns when the entry that ends at a block count was last written or read.
func (e Ends) Marked(blocks int) (at time.Time, known bool) {
	for i := range e {
		if e[i].Blocks == blocks {
			return e[i].At, true
		}
	}
	return time.Time{}, false
}

// Cut drops the entries beyond a block count, because their prefix has changed.
func (e *Ends) Cut(blocks int) {
	*e = slices.DeleteFunc(*e, func(e End) bool { return e.Blocks > blocks })
}

// Size is the memory of the entries, in bytes.
func (e Ends) Size() int64 { return int64(cap(e)) * int64(unsafe.Sizeof(End{})) }

// Snapshot writes the entries of a conversation that began at a time.
func (e Ends) Snapshot(w *PackedWriter, began time.Time) {
	w.Uint(uint64(len(e)))
	for i := range e {
		w.Uint(uint64(e[i].Blocks))
		w.Time(e[i].At, began)
	}
}

// Restore reads the entries that [Ends.Snapshot] wrote.
func (e *Ends) Restore(r *PackedReader, began time.Time) {
	n := r.Count(2)
	*e = slices.Grow(*e, n)
	for range n {
		*e = append(*e, End{r.Small(wire.MaxElements), r.Time(began)})
	}
}
