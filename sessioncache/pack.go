// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"container/list"
	"slices"
	"time"
	"unsafe"
)

// quiet is how long nobody uses a session before it is packed. Who comes back later has
// waited for longer than it takes to read the request anew.
const quiet = time.Minute

// pack is what a session that nobody uses keeps of its blocks: what a snapshot would, in
// a sixth of the memory. Edits and insertions stay as they are; all else is found out anew from
// the next request, as it is after a restart.
type pack struct {
	bytes    []byte
	edits    []*Edit
	inserted []*Inserted
}

// Lock locks the session, and unpacks it.
func (s *Session) Lock() {
	s.mu.Lock()
	if s.packed.Load() != nil {
		s.unpack()
	}
}

// Unlock unlocks it.
func (s *Session) Unlock() { s.mu.Unlock() }

// pack packs the session, which must be locked.
func (s *Session) pack() {
	p := new(pack)
	w := snapshotWriter{PackedWriter: PackedWriter{Out: make([]byte, 0, s.length)}, pack: p}
	s.Counterfactual.Snapshot(&w.PackedWriter, s.created)
	for i, l := range s.lineages {
		l.Ends.Snapshot(&w.PackedWriter, l.Created)
		w.chain(l, s.lineages[:i])
		w.states(l)
	}
	for _, l := range s.lineages { // once no other is written by its blocks
		if l.left {
			RecycleStates(l.States)
			l.known.Recycle()
		}
		l.known, l.States, l.Ends, l.left, l.restored = nil, nil, nil, false, true
	}
	s.Counterfactual = CounterfactualCache{}
	p.bytes = slices.Clone(w.Out)
	s.packed.Store(p)
}

// unpack makes of a packed session what it was, but for what the next request tells.
func (s *Session) unpack() {
	p := s.packed.Swap(nil)
	r := snapshotReader{PackedReader: PackedReader{In: p.bytes}, pack: p}
	s.Counterfactual.Restore(&r.PackedReader, s.created)
	for i, l := range s.lineages {
		l.Ends.Restore(&r.PackedReader, l.Created)
		r.chain(l, s.lineages[:i])
		r.states(l)
	}
	if r.Bad { // no session is like that; this one begins anew
		s.lineages = nil
	}
}

// size is the memory that the pack takes, in bytes.
func (p *pack) size() (n int64) {
	if p == nil {
		return 0
	}
	for _, e := range p.edits {
		n += e.Size()
	}
	for _, in := range p.inserted {
		n += int64(in.Size())
	}
	return n + int64(unsafe.Sizeof(*p)) + int64(cap(p.bytes)) + 8*int64(cap(p.edits)+cap(p.inserted))
}

// settle drops the sessions whose time is over, packs those that nobody has used for a
// while, and comes again.
func (m *Memory) settle() {
	now := time.Now()
	var settled []*Session
	m.mu.Lock()
	var next *list.Element
	for e := m.newest.Front(); e != nil; e = next {
		next = e.Next()
		if s := e.Value.(*Session); !m.expire(s, now) && s.packed.Load() == nil && s.unused(now) {
			settled = append(settled, s)
		}
	}
	m.mu.Unlock()
	for _, s := range settled {
		m.pack(s, now)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.settling.Reset(quiet / 2)
	}
}

// unused reports whether nobody uses the session, nor has for a while. The store must be
// locked.
func (s *Session) unused(now time.Time) bool {
	return s.pins == 0 && !s.gone.Load() && now.Sub(s.last) >= quiet
}

// pack packs a session unless somebody has begun to use it. Who begins to now unpacks it.
// One that cannot be packed is forgotten: a panic would take the process with it.
func (m *Memory) pack(s *Session, now time.Time) {
	defer func() {
		if recover() != nil {
			m.strike(s)
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	m.mu.Lock()
	unused := s.unused(now)
	m.mu.Unlock()
	if !unused || s.packed.Load() != nil {
		return
	}
	s.pack()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !s.gone.Load() {
		m.held[s.rank].Resize(s.entry, s.size())
	}
}
