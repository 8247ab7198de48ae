// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// ledger holds the edits that a request adds to its conversation's.
type ledger struct {
	// fresh holds the edits made in this request, by block: the value is the edit before. An edit
	// can be undone until the request is sent.
	fresh map[int]*sessioncache.Edit
	// broken is the first message that differs from the upstream's cache, because of a fresh edit
	// in it or in the results of its calls.
	broken int32
	// turned reports that the conversation's edits were only computed so far and are sent from now
	// on, or the reverse.
	turned bool
}

// smallGain is the minimum saving, in bytes, of an edit that invalidates cached bytes. A smaller
// saving does not pay for writing the blocks after it again, at least the hot zone.
const smallGain = 320

// may reports whether the policy allows a new edit of a block now.
func (r *request) may(i int) bool {
	return r.o.Policy == Eager || r.anew(i)
}

// anew reports whether the upstream reads a block without its cache in any case.
func (r *request) anew(i int) bool {
	return i >= r.cached.forwarded || r.cached.cold || r.Blocks[i].Message >= r.ledger.broken
}

// pays reports whether an edit with this saving is worth making now. With mode on, every edit is.
// With auto, a small edit waits until it is free.
func (r *request) pays(m stage.Mode, i, saving int) bool {
	return m == stage.On || saving >= smallGain || r.free(i)
}

// free reports whether an edit of a block invalidates no cached bytes: the block was never
// forwarded, the cache is cold, or an earlier edit broke the prefix.
func (r *request) free(i int) bool {
	return i >= r.Known || r.cached.cold || r.Blocks[i].Message >= r.ledger.broken
}

// set enters an edit of a block in the ledger.
func (r *request) set(i int, name string, op wire.Op, value []byte) {
	if r.ledger.fresh == nil {
		r.ledger.fresh = make(map[int]*sessioncache.Edit)
	}
	// undo restores the edit from before the request, not one made since.
	if _, again := r.ledger.fresh[i]; !again {
		r.ledger.fresh[i] = r.States[i].Edit
	}
	r.States[i].Edit = &sessioncache.Edit{Stage: name, Op: op, Value: value}
	message := r.Blocks[i].Message
	if r.Blocks[i].Kind == wire.KindToolResult && message > 0 {
		message-- // only calls stand between a result's message and this one
	}
	r.ledger.broken = min(r.ledger.broken, message)
}

// undo reverts a fresh edit.
func (r *request) undo(i int) {
	r.States[i].Edit = r.ledger.fresh[i]
	delete(r.ledger.fresh, i)
}
