// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

// A snapshot is the form of a session that survives the process. It begins with the number of the
// format. A program does not read a newer format than its own.
//
// Of each block a snapshot has the hash, the role, and the states that the client's next request
// does not yield: edits and insertions as recipes, how often the block went unused, and whether the
// model has asked for it. Of intercepted responses it only records that there were some. It leaves out
// traits, paths, classes, and the states of pings, overlays and background folds. It contains no
// credential and no text of the client, only our stubs and notes with the names of their calls.

// snapshotForm is the number of the format. A change that earlier programs cannot skip takes the next number.
// Anything else is a field at the end: its number, from 1 on, and its bytes. Programs skip fields that they do
// not know.
const snapshotForm = 1

// snapshotHead is the approximate size of a snapshot without blocks.
const snapshotHead = 512

// The reasons why a snapshot cannot be read.
var (
	// ErrSnapshot reports a damaged snapshot.
	ErrSnapshot = errors.New("damaged snapshot")
	// ErrNewer reports a snapshot of a newer program.
	ErrNewer = errors.New("snapshot of a newer program")
)

type snapshotWriter struct {
	PackedWriter
	edits map[*Edit]uint64 // edits written so far, by number
	pack  *pack            // takes insertions and short edits as they are; nil to write them
}

type snapshotReader struct {
	PackedReader
	edits []*Edit
	pack  *pack // has the insertions and short edits; nil to read them
}

// Properties of a conversation, by bits.
const (
	conversationObserved = 1 << iota
	conversationFrozen   // every kind of edit was refused
	conversationDiverged
	conversationPartial
	conversationBeyond
	conversationExpand
	conversationUnsaid
	conversationClaimed
	conversationNoTools
	conversationNoMarkers
	conversationNoText
)

// Properties of a block, by bits.
const (
	stateUnused = 1 << iota
	statePinned
	stateRelies
	stateContent
	stateEdit
	stateInserted
	stateUsed
	stateMissed
)

// Snapshot appends the snapshot of the session. The session must be locked.
func (s *Session) Snapshot(dst []byte) []byte { return s.snapshot(dst, s.conversations) }

// snapshot does so for some conversations. Without dst it takes a buffer that may be recycled.
func (s *Session) snapshot(dst []byte, conversations []*Conversation) []byte {
	before := len(dst)
	if dst == nil {
		dst = reuse.Buffer(s.length + s.length/8 + snapshotHead) // conversations grow by little
	}
	w := snapshotWriter{PackedWriter: PackedWriter{Out: append(dst, snapshotForm)}}
	w.Out = append(w.Out, s.tenant[:]...)
	w.Text(s.upstream)
	w.Time(s.created, time.Time{})
	w.Uint(uint64(s.next))
	w.Uint(uint64(s.Lifetime))
	w.Int(int64(s.Unseen))
	s.Calibration.Snapshot(&w.PackedWriter)
	s.Counterfactual.Snapshot(&w.PackedWriter, s.created)
	w.Uint(uint64(len(conversations)))
	for i, l := range conversations {
		w.conversation(l, conversations[:i])
	}
	s.length = len(w.Out) - before
	return w.Out
}

func (w *snapshotWriter) conversation(l *Conversation, before []*Conversation) {
	w.Uint(uint64(l.id))
	w.Uint(bit(l.Observed, conversationObserved) | bit(l.Diverged, conversationDiverged) |
		bit(l.Partial, conversationPartial) | bit(l.Beyond, conversationBeyond) | bit(l.Expand, conversationExpand) |
		bit(l.Unsaid || len(l.Said) > 0, conversationUnsaid) | bit(l.claimed, conversationClaimed) | refusedBits(l.Refused))
	// Retained
	w.Int(int64(l.Less))
	w.Hash(l.Reply)
	w.Hash(l.First)
	// Warmth
	w.Time(l.Created, time.Time{})
	w.Time(l.Started, l.Created)
	w.Time(l.Warmed, l.Created)
	w.Uint(uint64(l.Pauses))
	w.Float(l.Kept)
	w.Int(int64(l.TTL))
	l.Ends.Snapshot(&w.PackedWriter, l.Created)
	// Spending
	w.usage(&l.Last)
	w.usage(&l.Total)
	w.cleared(&l.Cleared)
	w.Int(int64(l.Estimate))
	w.Int(l.OriginalTokens)
	w.Int(l.SentTokens)
	for _, x := range [...]float64{l.Cost.Units, l.Cost.ClientUnits, l.Cost.USD, l.Cost.ClientUSD, l.Spent} {
		w.Float(x)
	}
	w.Fixed(l.PromptPrefix)
	// Folding
	w.Text(l.Decision)
	w.Uint(uint64(l.Settled))
	w.Float(l.Staked)
	w.Float(l.Removed)
	w.Float(l.Caution)
	// Misses
	w.Name(l.Break)
	w.Uint(uint64(len(l.Breaks)))
	for _, reason := range slices.Sorted(maps.Keys(l.Breaks)) {
		w.Name(reason)
		w.Uint(uint64(l.Breaks[reason]))
	}
	// Intercepted
	w.Uint(uint64(len(l.Expanded)))
	for _, n := range l.Expanded {
		w.Uint(uint64(n))
	}
	w.Name(l.Model)
	w.Uint(uint64(l.Kind))
	w.Uint(uint64(l.Requests))
	w.chain(l, before)
	w.states(l)
}

// chain writes the blocks of a conversation.
func (w *snapshotWriter) chain(l *Conversation, before []*Conversation) {
	if w.Bool(l.known != nil); l.known == nil {
		return
	}
	blocks, tools, system := l.sentBlocks()
	w.Uint(uint64(len(blocks)))
	w.Uint(uint64(tools))
	w.Uint(uint64(system))
	w.Hash(l.known.First())
	// Blocks of another conversation are not repeated: sub-agents have the tools of the main thread, and
	// branches its beginning.
	which, shared := 0, 0
	for i, o := range before {
		if o.known == nil {
			continue
		}
		there, _, _ := o.sentBlocks()
		if n := CommonBlocks(blocks, there); n > shared {
			which, shared = i, n
		}
	}
	w.Uint(uint64(shared))
	if shared > 0 {
		w.Uint(uint64(which))
	}
	for i := shared; i < len(blocks); i++ {
		w.Out = append(w.Out, blocks[i].Hash[:]...)
	}
	// Roles repeat, so that a run of blocks takes one number.
	for i := shared; i < len(blocks); {
		n := i + 1
		for n < len(blocks) && blocks[n].Role == blocks[i].Role {
			n++
		}
		w.Uint(uint64(n-i)<<3 | uint64(blocks[i].Role))
		i = n
	}
}

// sentBlocks returns the blocks of the last request with its tools in the order in which they were sent. Of the
// tools only the hashes are right.
func (l *Conversation) sentBlocks() (blocks []wire.Block, tools, system int) {
	blocks, tools, system = l.known.Blocks()
	if l.Order == nil {
		return blocks, tools, system
	}
	blocks = slices.Clone(blocks)
	for i, h := range l.Order {
		blocks[i].Hash = h
	}
	return blocks, tools, system
}

func (w *snapshotWriter) states(l *Conversation) {
	w.Uint(uint64(len(l.States)))
	for i := range l.States {
		s := &l.States[i]
		// Edits and insertions without a recipe cannot be made again by another process.
		edit := s.Edit != nil && (w.pack != nil || s.Edit.Outlives())
		inserted := s.Inserted != nil && (w.pack != nil || s.Inserted.Outlives())
		w.Out = append(w.Out, byte(bit(s.Unused > 0, stateUnused)|bit(s.Pinned, statePinned)|bit(s.Relies, stateRelies)|
			bit(s.Content != 0, stateContent)|bit(edit, stateEdit)|bit(inserted, stateInserted)|bit(s.Used > 0,
			stateUsed)|bit(s.Missed, stateMissed)))
		if s.Unused > 0 {
			w.Uint(uint64(s.Unused))
		}
		if s.Used > 0 {
			w.Uint(uint64(s.Used))
		}
		if s.Content != 0 {
			w.Fixed(s.Content)
		}
		if edit {
			w.edit(s.Edit)
		}
		if inserted && w.pack != nil {
			w.pack.inserted = append(w.pack.inserted, s.Inserted)
		} else if inserted {
			w.Uint(uint64(len(s.Inserted.Inserts)))
			for _, in := range s.Inserted.Inserts {
				w.Uint(uint64(in.Op))
				w.Bytes(in.Recipe)
			}
		}
	}
}

// refusedBits encodes the kinds of edits that were refused.
func refusedBits(k wire.EditKinds) uint64 {
	if k == wire.AllEdits {
		return conversationFrozen
	}
	return bit(k.Has(wire.EditTools), conversationNoTools) | bit(k.Has(wire.EditMarkers),
		conversationNoMarkers) | bit(k.Has(wire.EditText), conversationNoText)
}

func bit(set bool, b uint64) uint64 {
	if set {
		return b
	}
	return 0
}

// edit writes an edit, or its number if it was written before.
func (w *snapshotWriter) edit(e *Edit) {
	if w.pack != nil {
		whole := !e.Outlives() || len(e.Value) > 0 && len(e.Value) < minDescribed
		if w.Bool(whole); whole {
			w.pack.edits = append(w.pack.edits, e)
			return
		}
	}
	n, known := w.edits[e]
	w.Uint(n)
	if known {
		return
	}
	if w.edits == nil {
		w.edits = map[*Edit]uint64{}
	}
	w.edits[e] = uint64(len(w.edits) + 1)
	w.Name(e.Stage)
	w.Uint(uint64(e.Op))
	w.Bytes(e.Recipe)
}

func (w *snapshotWriter) usage(u *wire.Usage) {
	for _, n := range [...]int64{u.Uncached, u.Write5m, u.Write1h, u.Read, u.Output} {
		w.Int(n)
	}
	w.Bool(u.Reported)
}

func (w *snapshotWriter) cleared(c *wire.Cleared) {
	if w.Bool(*c != wire.Cleared{}); *c == (wire.Cleared{}) {
		return
	}
	for _, n := range [...]int64{c.ToolUses, c.Thinking, c.Tokens, c.ThinkingTokens} {
		w.Int(n)
	}
}
