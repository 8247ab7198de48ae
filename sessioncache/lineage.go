// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"time"
	"unsafe"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/hidden"
)

// Lineage is one growing conversation in a session. Its fields are read and changed only while the
// session is locked.
type Lineage struct {
	id    int
	known *wire.Known
	left  bool // see [Session.Leave]
	// restored reports whether the lineage knows its blocks only from a snapshot. That is so if the
	// last request went to another process, or the session has been idle for a while.
	restored bool
	here     bool     // the last request came to this process
	claimed  bool     // no answer to the last request is known
	named    [2]named // digests of Reply and First

	Ledger
	Held
	Warmth
	Spending
	Folding
	Misses
	Hidden
	// Tools are the tool definitions of the last request that had any, a JSON array, for requests
	// that leave them out. Nil where none are kept. The array is immutable and not in snapshots.
	Tools []byte
	// Model is the model of the last request.
	Model string
	// Kind is the kind of conversation, see [RequestKind].
	Kind uint32
	// Requests counts successful requests.
	Requests int
}

// Ledger is the edit ledger of a conversation: the edits that it has committed to.
type Ledger struct {
	// States has one entry for each message block of the last request.
	States []BlockState
	// Observed reports whether the edits in States were only computed, never sent.
	Observed bool
	// Departed reports whether computed edits would ever have changed the client's bytes, while
	// edits are only computed.
	Departed bool
	// Refused are the kinds of edits that the upstream has refused. Those kinds are no longer used
	// in this conversation.
	Refused wire.EditKinds
	// Diverged reports whether sent bytes have ever differed from the client's own.
	Diverged bool
}

// Hidden is traffic between the model and the proxy that the client does not see.
type Hidden struct {
	// Expand reports whether the request declares the tool that returns folded text to the model,
	// from the first request on.
	Expand bool
	// Said are the upstream's answers behind the client's last message, where that message merges
	// several answers or holds less than the upstream said. Usually nil.
	Said []hidden.Iteration
	// Unsaid reports whether such answers existed but are no longer known.
	Unsaid bool
	// Copied reports whether the last answer was ended early because a call contained one of our
	// stubs or notes.
	Copied bool
	// Expanded counts the blocks that the model has asked for again, by class.
	Expanded [Classes]uint16
}

// Observe sets whether edits are only computed from now on. A change resets the account of the
// edits computed or sent before.
func (l *Lineage) Observe(only bool) {
	if l.Observed == only {
		return
	}
	l.Observed, l.Departed = only, false
	l.Settled, l.Staked, l.Removed, l.Ends = 0, 0, 0, nil
}

// Len returns the number of message blocks of the last request.
func (l *Lineage) Len() int { return len(l.States) }

// ID is the number of the lineage in its session, -1 for nil.
func (l *Lineage) ID() int {
	if l == nil {
		return -1
	}
	return l.id
}

// Restored reports whether the [BlockState] of each block must be derived again, except for its
// edits and counters.
func (l *Lineage) Restored() bool { return l.restored }

// Claimed reports whether no answer to the last request is known. That request belongs to another
// process, or to one that has ended.
func (l *Lineage) Claimed() bool { return l.claimed }

// Known returns the parsed form of the last request.
func (l *Lineage) Known() *wire.Known { return l.known }

func (l *Lineage) chain() []wire.Block {
	if l.known == nil {
		return nil
	}
	return l.known.Chain()
}

// supersededBy reports whether a request with n common blocks takes the lineage's place: it
// continues the lineage, or differs only after the last answer. Examples of the latter are a
// dropped reminder and a rewritten last message.
func (l *Lineage) supersededBy(v *wire.View, n int) bool {
	chain := l.chain()
	for _, b := range chain[min(n, len(chain)):] {
		if b.Role == wire.RoleAssistant {
			// A request without this answer branches off; both branches stay.
			return false
		}
	}
	return true
}

// spoken returns n less the common end of a message that would be empty without its removed blocks.
// There the lineage continues differently, for example with the call that a text had announced.
func (l *Lineage) spoken(v *wire.View, n int) int {
	if n == 0 || n > len(l.States) {
		return n
	}
	blocks := v.MessageBlocks()
	m := &v.Messages[blocks[n-1].Message]
	out := n
	for i := int(m.First) - v.System; i < int(m.End)-v.System; i++ {
		if i < n && l.States[i].Edit != nil && l.States[i].Edit.Op == wire.OpRemove {
			out = min(out, i)
		} else if k := blocks[i].Kind; k != wire.KindThinking && k != wire.KindRedactedThinking {
			return n
		}
	}
	return out
}

// inherit takes over the properties of the whole conversation from the parent lineage. Knowledge of
// another chain in its place is dropped.
func (l *Lineage) inherit(parent *Lineage) {
	// The new branch has no cache entries of its own yet.
	l.Ends, l.Warmed, l.Folding = nil, time.Time{}, Folding{}
	l.Observed, l.Departed, l.Refused, l.TTL = parent.Observed, parent.Departed, parent.Refused, parent.TTL
	l.Diverged, l.Front = parent.Diverged, parent.Front
	l.Expand, l.Expanded, l.Tools = parent.Expand, parent.Expanded, parent.Tools
}

func (l *Lineage) size() int64 {
	n := int64(unsafe.Sizeof(*l)) + l.Ends.Size() + int64(cap(l.States))*int64(unsafe.Sizeof(BlockState{})) + int64(cap(l.Tools)+len(l.Model))
	if l.known != nil {
		n += int64(l.known.Size())
	}
	for i := range l.Said {
		n += int64(l.Said[i].Size())
	}
	for i := range l.States {
		if e := l.States[i].Edit; e != nil {
			n += e.Size()
		}
		n += int64(l.States[i].Inserted.Size())
		n += int64(len(l.States[i].Trait))
	}
	return n
}
