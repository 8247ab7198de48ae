// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// turns are a tenant's sessions by turns of their conversations.
type turns = ownerIndex[Tenant, wire.Hash, *Session]

// indexed has room for the hashes of most sessions, so that held need not allocate.
type indexed struct{ firsts, said [4]wire.Hash }

// held returns the facts that a store indexes: the session's memory and rank, the first turns of
// its conversations, and their responses.
func (s *Session) held(by *indexed) (bytes int64, is rank, firsts, said []wire.Hash) {
	s.Lock()
	defer s.Unlock()
	firsts, said = by.firsts[:0], by.said[:0]
	for _, l := range s.lineages {
		is = max(is, min(rank(l.Requests), goesOn))
		firsts = append(firsts, l.known.First())
		for _, h := range [...]wire.Hash{l.Reply, l.First} {
			if !h.IsZero() {
				said = append(said, h)
			}
		}
	}
	return s.size(), is, firsts, said
}

// index makes the session findable by the first turns of its conversations, and by their responses.
func (m *Memory) index(s *Session, firsts, said []wire.Hash) {
	s.firsts = m.firsts.Move(s.tenant, s, s.firsts, firsts)
	s.said = m.said.Move(s.tenant, s, s.said, said)
}

// Find implements Store.
func (m *Memory) Find(id string) *Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.find(id)
}

func (m *Memory) find(id string) *Session {
	for _, s := range m.sessions {
		if s.id == id {
			return s
		}
	}
	return nil
}

// Delete implements Store.
func (m *Memory) Delete(id string) *Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.find(id)
	if s != nil {
		m.drop(s)
	}
	return s
}

// Page implements Store.
func (m *Memory) Page(before uint64, most int) []*Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	page := make([]*Session, 0, min(most, m.newest.Len()))
	for e := m.newest.Front(); e != nil && len(page) < most; e = e.Next() {
		if s := e.Value.(*Session); s.Number() < before {
			page = append(page, s)
		}
	}
	return page
}
