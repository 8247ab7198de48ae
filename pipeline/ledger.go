// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// ledger is what a request adds to the edits that its conversation has committed to.
type ledger struct {
	// fresh are the edits made in this request, by block: what the state was
	// before. Deep edits can be taken back as long as nothing was sent.
	fresh map[int]*sessioncache.Edit
	// broken is the first message that differs from what the upstream has
	// cached, because of a fresh edit in it or in the results of its calls.
	broken int32
	// turned reports that the edits of the conversation were only computed so far and
	// will be sent from now on, or the other way round.
	turned bool
}

// smallGain is the saving in bytes below which an edit that throws away cached
// bytes is not made for its own sake: what stands behind it, at least the hot
// zone, would be written anew for less than it is read for.
const smallGain = 320

// may reports whether the policy allows a new edit of a block now.
func (r *request) may(i int) bool {
	return r.o.Policy == Eager || r.anew(i)
}

// anew reports whether the upstream reads a block anew, whatever is done to it.
func (r *request) anew(i int) bool {
	return i >= r.cached.forwarded || r.cached.cold || r.Blocks[i].Message >= r.ledger.broken
}

// pays reports whether an edit that saves some bytes should be made now. Under
// On it should whenever the policy allows it. Under Auto a small one waits
// until it throws nothing away: the block was never forwarded, the cache is
// cold, or another edit in front of it has broken the prefix already.
func (r *request) pays(m stage.Mode, i, saving int) bool {
	return m == stage.On || saving >= smallGain || r.free(i)
}

// free reports whether an edit of a block throws nothing away that is cached.
func (r *request) free(i int) bool {
	return i >= r.Known || r.cached.cold || r.Blocks[i].Message >= r.ledger.broken
}

// set enters an edit of a block in the ledger.
func (r *request) set(i int, name string, op wire.Op, value []byte) {
	if r.ledger.fresh == nil {
		r.ledger.fresh = make(map[int]*sessioncache.Edit)
	}
	if _, again := r.ledger.fresh[i]; !again {
		r.ledger.fresh[i] = r.States[i].Edit
	}
	r.States[i].Edit = &sessioncache.Edit{Stage: name, Op: op, Value: value}
	message := r.Blocks[i].Message
	if r.Blocks[i].Kind == wire.KindToolResult && message > 0 {
		message-- // the calls are all that stands between
	}
	r.ledger.broken = min(r.ledger.broken, message)
}

// undo takes a fresh edit back.
func (r *request) undo(i int) {
	r.States[i].Edit = r.ledger.fresh[i]
	delete(r.ledger.fresh, i)
}

// keep takes every edit back but those that thinking has seen: where it is bound
// to its past, the original would be refused as well. It goes by what the request began
// with: its conversation may have gone on since, here or in another process.
func (r *request) keep(m sessioncache.Match) {
	seen := r.bound(m)
	for i := range r.States {
		if _, made := r.ledger.fresh[i]; made {
			r.undo(i)
		}
		if e := r.States[i].Edit; !seen || i >= r.Known && (e == nil || e.Stage != stage.Expand) {
			r.States[i].Edit = nil
		}
	}
	r.ledger.fresh = nil
}

// edited reports whether any block is to go out other than it came.
func (r *request) edited() bool {
	for i := range r.States {
		if r.States[i].Edit != nil {
			return true
		}
	}
	return false
}

// edits lists what to do with the bytes: the ledger of this request and the
// markers.
func (r *request) edits(markers []wire.Edit) []wire.Edit {
	n := 0
	for i := range r.States {
		if r.States[i].Edit != nil {
			n++
		}
	}
	var edits []wire.Edit
	if n += len(markers); n > 0 {
		edits = make([]wire.Edit, 0, n+1)
	}
	for i := range r.States {
		if e := r.States[i].Edit; e != nil {
			edits = append(edits, wire.Edit{Block: r.View.System + i, Op: e.Op, Value: e.Value})
		}
	}
	return r.insertions(append(r.lengthened(edits), markers...))
}
