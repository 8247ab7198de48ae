// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Restore makes a session from a snapshot, under the digest of its key, see [Key.Digest]. It
// returns an error that wraps [ErrSnapshot] or [ErrNewer] if the snapshot cannot be read.
func Restore(d Digest, snapshot []byte) (*Session, error) {
	switch {
	case len(snapshot) == 0 || snapshot[0] < snapshotForm:
		return nil, ErrSnapshot
	case snapshot[0] > snapshotForm:
		return nil, ErrNewer
	}
	r := snapshotReader{PackedReader: PackedReader{In: snapshot[1:]}}
	s := &Session{digest: d, turn: make(turn, 1)}
	s.outlives.Store(true)
	copy(s.tenant[:], r.Take(len(s.tenant)))
	s.upstream = r.Text()
	s.created = r.Time(time.Time{})
	s.next = r.Small(1 << 40)
	s.Lifetime = Lifetime(r.Small(uint64(LifetimeLong)))
	s.Unseen = time.Duration(r.Int())
	s.Calibration.Restore(&r.PackedReader)
	s.Counterfactual.Restore(&r.PackedReader, s.created)
	n := r.Count(1)
	if n > maxConversations {
		r.Fail()
	}
	for range n {
		s.conversations = append(s.conversations, r.conversation(s.conversations))
		if r.Bad {
			break
		}
	}
	// Fields of later minor versions.
	for !r.Bad && len(r.In) > 0 {
		if number := r.Uint(); number == 0 {
			r.Fail()
		}
		r.Bytes()
	}
	if r.Bad || snapshot[0] == 0 {
		return nil, ErrSnapshot
	}
	return s, nil
}

func (r *snapshotReader) conversation(before []*Conversation) *Conversation {
	l := &Conversation{id: r.Small(1 << 40), restored: true}
	bits := r.Uint()
	has := func(bit uint64) bool { return bits&bit != 0 }
	l.Observed, l.Diverged = has(conversationObserved), has(conversationDiverged)
	l.Partial, l.Beyond = has(conversationPartial), has(conversationBeyond)
	l.Expand, l.Unsaid, l.claimed = has(conversationExpand), has(conversationUnsaid), has(conversationClaimed)
	if l.Refused = wire.AllEdits; !has(conversationFrozen) {
		l.Refused = wire.EditKinds(bit(has(conversationNoTools), uint64(wire.EditTools)) | bit(has(conversationNoMarkers),
			uint64(wire.EditMarkers)) | bit(has(conversationNoText), uint64(wire.EditText)))
	}
	l.Less = int(r.Int())
	l.Reply, l.First = r.Hash(), r.Hash()
	l.Created = r.Time(time.Time{})
	l.Started, l.Warmed = r.Time(l.Created), r.Time(l.Created)
	l.Pauses = r.Small(1 << 40)
	l.Kept = r.Float()
	l.TTL = time.Duration(r.Int())
	l.Ends.Restore(&r.PackedReader, l.Created)
	l.Last, l.Total = r.usage(), r.usage()
	l.Cleared = r.cleared()
	l.Estimate = int(r.Int())
	l.OriginalTokens, l.SentTokens = r.Int(), r.Int()
	l.Cost = CostSummary{Units: r.Float(), ClientUnits: r.Float(), USD: r.Float(), ClientUSD: r.Float()}
	l.Spent = r.Float()
	l.PromptPrefix = r.Fixed()
	l.Decision = r.Text()
	l.Settled = r.Small(wire.MaxElements)
	l.Staked, l.Removed, l.Caution = r.Float(), r.Float(), r.Float()
	l.Break = r.Name()
	for range r.Count(2) {
		if l.Breaks == nil {
			l.Breaks = make(map[string]int)
		}
		reason := r.Name()
		l.Breaks[reason] = r.Small(1 << 40)
	}
	for i := range r.Count(1) {
		if n := r.Small(1 << 16); i < len(l.Expanded) {
			l.Expanded[i] = uint16(n)
		}
	}
	l.Model = r.Name()
	l.Kind = uint32(r.Small(1<<32 - 1))
	l.Requests = r.Small(1 << 40)
	r.chain(l, before)
	r.states(l)
	return l
}

func (r *snapshotReader) chain(l *Conversation, before []*Conversation) {
	if !r.Bool() {
		l.known = wire.RestoreKnown(nil, 0, 0, wire.Hash{})
		return
	}
	n, tools, system := r.Small(wire.MaxElements), r.Small(wire.MaxElements), r.Small(wire.MaxElements)
	first := r.Hash()
	shared := r.Small(uint64(n))
	// Check the length before allocating.
	if tools+system > n || (n-shared)*len(wire.Hash{}) > len(r.In) {
		r.Fail()
		return
	}
	blocks := make([]wire.Block, n)
	if shared > 0 {
		which := r.Small(uint64(max(len(before)-1, 0)))
		if which >= len(before) {
			r.Fail()
			return
		}
		// An earlier conversation has the first blocks, see snapshotWriter.chain.
		there, _, _ := before[which].known.Blocks()
		if shared > len(there) {
			r.Fail()
			return
		}
		copy(blocks, there[:shared])
	}
	for i := shared; i < n; i++ {
		copy(blocks[i].Hash[:], r.Take(len(wire.Hash{})))
	}
	for i := shared; i < n && !r.Bad; {
		run := r.Uint()
		length := run >> 3
		if length == 0 || length > uint64(n-i) {
			r.Fail()
			return
		}
		for range length {
			blocks[i].Role = wire.Role(run & 7)
			i++
		}
	}
	l.known = wire.RestoreKnown(blocks, tools, system, first)
}

func (r *snapshotReader) states(l *Conversation) {
	n := r.Count(1)
	if r.Bad || n > len(l.chain()) {
		r.Fail()
		return
	}
	l.States = make([]BlockState, n)
	for i := range l.States {
		s := &l.States[i]
		b := r.Take(1)
		if b == nil {
			return
		}
		bits := b[0]
		s.Pinned, s.Relies, s.Missed = bits&statePinned != 0, bits&stateRelies != 0, bits&stateMissed != 0
		if bits&stateUnused != 0 {
			s.Unused = uint16(r.Small(1<<16 - 1))
		}
		if bits&stateUsed != 0 {
			s.Used = uint16(r.Small(1<<16 - 1))
		}
		if bits&stateContent != 0 {
			s.Content = r.Fixed()
		}
		if bits&stateEdit != 0 {
			s.Edit = r.edit()
		}
		if bits&stateInserted == 0 {
			continue
		}
		if r.pack != nil {
			s.Inserted, r.pack.inserted = r.pack.inserted[0], r.pack.inserted[1:]
			continue
		}
		w := new(Inserted)
		for range r.Count(2) {
			op := wire.Op(r.Small(uint64(wire.OpAfterMessage)))
			w.Inserts = append(w.Inserts, Insert{Op: op, Recipe: append([]byte{}, r.Bytes()...)})
		}
		if len(w.Inserts) == 0 {
			r.Fail()
			return
		}
		s.Inserted = w
	}
}

func (r *snapshotReader) edit() (e *Edit) {
	if r.pack != nil && r.Bool() {
		e, r.pack.edits = r.pack.edits[0], r.pack.edits[1:]
		return e
	}
	n := r.Small(uint64(len(r.edits)))
	if n > 0 {
		return r.edits[n-1]
	}
	e = &Edit{Stage: r.Name(), Op: wire.Op(r.Small(uint64(wire.OpAfterMessage)))}
	if recipe := r.Bytes(); len(recipe) > 0 {
		e.Recipe = append([]byte{}, recipe...)
	}
	r.edits = append(r.edits, e)
	return e
}

func (r *snapshotReader) usage() wire.Usage {
	return wire.Usage{
		Uncached: r.Int(), Write5m: r.Int(), Write1h: r.Int(), Read: r.Int(), Output: r.Int(),
		Reported: r.Bool(),
	}
}

func (r *snapshotReader) cleared() (c wire.Cleared) {
	if r.Bool() {
		c = wire.Cleared{ToolUses: r.Int(), Thinking: r.Int(), Tokens: r.Int(), ThinkingTokens: r.Int()}
	}
	return c
}
