// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"bytes"
	"slices"
	"unsafe"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Edit is one entry of the edit ledger. It is immutable and replayed byte for byte.
type Edit struct {
	// Stage is the name of the stage that made the edit.
	Stage string
	// Op and Value are as in [wire.Edit]. Value is nil until [ResolveEdits] has made it.
	Op    wire.Op
	Value []byte
	// Recipe makes Value from the block's body, see [DescribeBlocks].
	Recipe []byte
}

// Size is the memory of the edit, in bytes.
func (e *Edit) Size() int64 {
	return int64(unsafe.Sizeof(*e)) + int64(cap(e.Value)+cap(e.Recipe))
}

// Same reports whether two edits send the same bytes. Nil is no edit.
func (e *Edit) Same(o *Edit) bool {
	if e == nil || o == nil || e == o {
		return e == o
	}
	return e.Op == o.Op && sameValue(e.Value, o.Value, e.Recipe, o.Recipe)
}

// Outlives reports whether the edit can be made again by another process.
func (e *Edit) Outlives() bool { return e != nil && (len(e.Value) == 0 || len(e.Recipe) > 0) }

// Inserted are insertions that exist upstream and not at the client. They are immutable and
// replayed byte for byte.
type Inserted struct {
	// Inserts are the insertions, in order.
	Inserts []Insert
}

// Insert is one insertion at a block.
type Insert struct {
	// Op and Value are as in [wire.Edit]. Value is nil until [ResolveEdits] has made it.
	Op    wire.Op
	Value []byte
	// Recipe makes Value from the bodies up to its block, see [DescribeBlocks].
	Recipe []byte
}

// Size is the number of inserted bytes.
func (w *Inserted) Size() (n int) {
	if w == nil {
		return 0
	}
	for _, i := range w.Inserts {
		n += len(i.Value)
	}
	return n
}

// Same reports whether both insert the same bytes. Nil is no insertion.
func (w *Inserted) Same(o *Inserted) bool {
	if w == nil || o == nil || w == o {
		return w == o
	}
	return slices.EqualFunc(w.Inserts, o.Inserts, func(a, b Insert) bool { return a.Op == b.Op && sameValue(a.Value, b.Value, a.Recipe, b.Recipe) })
}

// Outlives reports whether another process can make all insertions again.
func (w *Inserted) Outlives() bool {
	return w != nil && len(w.Inserts) > 0 && !slices.ContainsFunc(w.Inserts, func(in Insert) bool { return len(in.Recipe) == 0 })
}

// sameValue compares two values, or their recipes.
func sameValue(a, b, recipeA, recipeB []byte) bool {
	// A recipe begins with a hash of its value.
	if len(recipeA) > 4 && len(recipeB) > 4 {
		return bytes.Equal(recipeA[:4], recipeB[:4])
	}
	return bytes.Equal(a, b)
}
