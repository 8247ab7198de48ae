// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"container/list"
	"slices"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

// quiet is the idle time after which a session is packed.
const quiet = time.Minute

// packedSize is more than most sessions take when packed, in bytes.
const packedSize = 64 << 10

// pack is the compact form of an idle session's blocks: the content of a snapshot. Insertions, short edits and those
// without a recipe stay as they are. All other states are derived again from the next request, as after a restart.
type pack struct {
	bytes    []byte
	edits    []*Edit
	inserted []*Inserted
}

// pack packs the session, which must be locked.
func (s *Session) pack() {
	p := new(pack)
	// Garbage between the packed bytes of sessions would keep their pages of the heap half empty.
	w := snapshotWriter{PackedWriter: PackedWriter{Out: reuse.Buffer(max(s.length, packedSize))}, pack: p}
	s.Counterfactual.Snapshot(&w.PackedWriter, s.created)
	for i, l := range s.conversations {
		l.Ends.Snapshot(&w.PackedWriter, l.Created)
		w.chain(l, s.conversations[:i])
		w.states(l)
	}
	// Only now, since later conversations refer to the blocks of earlier ones. Nothing is recycled: the pools would keep the
	// memory of all idle sessions for two garbage collections.
	for _, l := range s.conversations {
		l.known, l.States, l.entries, l.Ends, l.Order, l.left, l.restored = nil, nil, nil, nil, nil, false, true
	}
	s.Counterfactual = CounterfactualCache{}
	p.bytes = slices.Clone(w.Out)
	reuse.Recycle(w.Out)
	s.packed.Store(p)
}

// unpack restores the conversations of a packed session, except for states that the next request yields.
func (s *Session) unpack() {
	p := s.packed.Swap(nil)
	r := snapshotReader{PackedReader: PackedReader{In: p.bytes}, pack: p}
	s.Counterfactual.Restore(&r.PackedReader, s.created)
	for i, l := range s.conversations {
		l.Ends.Restore(&r.PackedReader, l.Created)
		r.chain(l, s.conversations[:i])
		r.states(l)
	}
	if r.Bad { // cannot happen; the session begins anew
		s.conversations = nil
	}
}

// sweep drops the expired sessions of the window, packs idle ones, and schedules itself again. The
// cache drops its expired sessions itself.
func (st *Store) sweep() {
	now := time.Now()
	var idle []*Session
	st.mu.Lock()
	var next *list.Element
	for e := st.newest.Front(); e != nil; e = next {
		next = e.Next()
		s := e.Value.(*Session)
		expired := s.entry != nil && st.expire(s, now)
		if !expired && s.packed.Load() == nil && s.unused(now) {
			idle = append(idle, s)
		}
	}
	st.unlock()
	for _, s := range idle {
		st.pack(s, now)
	}
	st.mu.Lock()
	defer st.unlock()
	if !st.closed {
		st.sweeper.Reset(quiet / 2)
	}
}

// unused reports whether the session is unpinned and has been idle for a while. The store must be
// locked.
func (s *Session) unused(now time.Time) bool {
	return s.pins == 0 && !s.gone.Load() && now.Sub(s.last) >= quiet
}

// pack packs a session unless it is in use again. A later use unpacks it.
func (st *Store) pack(s *Session, now time.Time) {
	defer func() {
		// A panic here would end the process; a forgotten session does no harm.
		if recover() != nil {
			st.strike(s)
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	st.mu.Lock()
	// A request may have acquired the session since sweep looked.
	unused := s.unused(now)
	st.mu.Unlock()
	if !unused || s.packed.Load() != nil {
		return
	}
	s.pack()
	st.mu.Lock()
	defer st.mu.Unlock() // sweep reports an eviction, without the session's lock
	switch {
	case s.gone.Load():
	case s.entry != nil:
		st.window.Resize(s.entry, s.size())
	case s.offer > 0:
		st.withdraw(s)
		st.offer(s, s.size())
	}
}
