// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"time"
	"unsafe"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/hidden"
)

// Lineage is one growing conversation inside a session. Its fields are read
// and changed only while the session is locked.
type Lineage struct {
	id    int
	known *wire.Known
	left  bool // see [Session.Leave]
	// restored reports whether of its blocks only what a snapshot holds is known: the last
	// request was one of another process, or nobody has used the session for a while.
	restored bool
	here     bool     // the last request came to this process
	claimed  bool     // no answer to the last request is known of
	named    [2]named // its Reply and its First

	Ledger
	Held
	Warmth
	Spending
	Folding
	Misses
	Hidden
	// Tools are the definitions of its tools as the last request that had some had
	// them, a JSON array: for requests that leave them out. Nil where none are kept.
	// They do not change and are gone with the process.
	Tools []byte
	// Model is the model of the last request.
	Model string
	// Kind is the kind of conversation, see [RequestKind].
	Kind uint32
	// Requests counts requests that ended well.
	Requests int
}

// Ledger is what a conversation has committed to doing with its blocks.
type Ledger struct {
	// States has one entry for each message block of the last request.
	States []BlockState
	// Observed reports whether the edits in States were computed, but never sent.
	Observed bool
	// Departed reports whether what would have been sent has not always been the
	// client's own bytes, while edits are only computed.
	Departed bool
	// Refused are the kinds of edits that the upstream has refused: this conversation
	// is not edited so any more.
	Refused wire.EditKinds
	// Diverged reports whether what was sent has not always been the client's own
	// bytes.
	Diverged bool
}

// Hidden is what passes between the model and the proxy without the client.
type Hidden struct {
	// Expand reports whether a tool by which the model gets folded text back is
	// declared to it, from the first request on.
	Expand bool
	// Said are the answers behind the client's last message where it is made of
	// several, or holds less than the upstream said; nil as a rule.
	Said []hidden.Iteration
	// Unsaid reports whether there were such answers that are not known any more.
	Unsaid bool
	// Copied reports whether the last answer was ended because a call held a stub or a
	// note of ours.
	Copied bool
	// Expanded counts the blocks that the model has asked for again, by class.
	Expanded [Classes]uint16
}

// Observe says whether edits are only computed from now on. What was to come of those
// that were never sent counts for nothing once it is otherwise, and the other way round.
func (l *Lineage) Observe(only bool) {
	if l.Observed == only {
		return
	}
	l.Observed, l.Departed = only, false
	l.Settled, l.Staked, l.Removed, l.Ends = 0, 0, 0, nil
}

// Len returns the number of message blocks of the last request.
func (l *Lineage) Len() int { return len(l.States) }

// ID numbers the lineage within its session, -1 for none.
func (l *Lineage) ID() int {
	if l == nil {
		return -1
	}
	return l.id
}

// Restored reports whether, but for edits and counters, what [BlockState] says of the
// blocks of the last request is to be found out anew.
func (l *Lineage) Restored() bool { return l.restored }

// Claimed reports whether the last request was one of another process, or of one that has
// ended, and no answer to it is known of.
func (l *Lineage) Claimed() bool { return l.claimed }

// Known returns what was parsed of the last request.
func (l *Lineage) Known() *wire.Known { return l.known }

func (l *Lineage) chain() []wire.Block {
	if l.known == nil {
		return nil
	}
	return l.known.Chain()
}

// supersededBy reports whether a request that shares n blocks with the lineage
// takes its place: it continues it, or differs from it only behind the last
// answer (a reminder was dropped, the last message was written anew). A
// request that leaves out an answer went another way, and both ways stay.
func (l *Lineage) supersededBy(v *wire.View, n int) bool {
	chain := l.chain()
	for _, b := range chain[min(n, len(chain)):] {
		if b.Role == wire.RoleAssistant {
			return false
		}
	}
	return true
}

// spoken is what a request has in common with the lineage, but for the end of a message that
// would say nothing without what was taken out of it: there the lineage goes on with more, such
// as the call that a text had announced.
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

// inherit takes over what holds for the whole conversation from the lineage
// that this one branches off. What is known of another chain in its place goes.
func (l *Lineage) inherit(parent *Lineage) {
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
