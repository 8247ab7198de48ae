// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

// Ends keeps at which places of a conversation the upstream holds cache entries.

import (
	"slices"
	"time"
	"unsafe"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// End is a place in a conversation at which the upstream holds a cache entry.
type End struct {
	// Blocks is the number of message blocks in front of it.
	Blocks int
	// At is when the entry was last written or read.
	At time.Time
}

// most bounds the entries that are remembered.
const most = 512

// Ends are the places of one conversation.
type Ends []End

// Mark notes that an entry was written or read at some place.
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

// Cut forgets the entries behind some place, whose prefix has changed.
func (e *Ends) Cut(blocks int) {
	*e = slices.DeleteFunc(*e, func(e End) bool { return e.Blocks > blocks })
}

// Size is the memory that they take, in bytes.
func (e Ends) Size() int64 { return int64(cap(e)) * int64(unsafe.Sizeof(End{})) }

// Snapshot writes them, of a conversation that began at some time.
func (e Ends) Snapshot(w *PackedWriter, began time.Time) {
	w.Uint(uint64(len(e)))
	for i := range e {
		w.Uint(uint64(e[i].Blocks))
		w.Time(e[i].At, began)
	}
}

// Restore reads what [Ends.Snapshot] wrote.
func (e *Ends) Restore(r *PackedReader, began time.Time) {
	n := r.Count(2)
	*e = slices.Grow(*e, n)
	for range n {
		*e = append(*e, End{r.Small(wire.MaxElements), r.Time(began)})
	}
}
