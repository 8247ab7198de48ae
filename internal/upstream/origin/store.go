// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"bytes"
	"crypto/rand"
	"slices"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// overhead is the memory of an entry besides its body, in bytes.
const overhead = 512

// store has the bases of edges.
type store struct {
	shared.Pins
	key tenant.Key

	kept *lru.Cache[handle, sessioncache.Tenant, *kept] // its lock guards last, too
	last map[conversation][]string                      // the ids of its bodies, in order
}

type handle struct {
	owner
	id string
}

type conversation struct {
	owner
	name string
}

// enough is the number of bodies kept for a conversation.
const enough = 2

// kept is a body.
type kept struct {
	of   conversation
	body []byte
	talk *talk // of a session, in the place of a body
}

func newStore(pool *lru.Pool[sessioncache.Tenant], life time.Duration, now func() time.Time) *store {
	s := &store{last: map[conversation][]string{}}
	s.kept = lru.New(lru.Options[handle, sessioncache.Tenant, *kept]{Pool: pool, TTL: life, Now: now, Dropped: s.dropped})
	_, _ = rand.Read(s.key.Secret[:]) // never fails
	return s
}

func (s *store) get(o owner, id string) []byte {
	s.kept.Lock()
	defer s.kept.Unlock()
	found := s.kept.Get(handle{o, id})
	if found == nil {
		return nil
	}
	s.kept.Use(found)
	return found.Value.body
}

func (s *store) put(c conversation, body []byte) (id string) {
	// A read buffer may be twice as large as its content.
	if cap(body) > len(body)+len(body)/8 {
		body = bytes.Clone(body)
	}
	id = rand.Text()
	s.kept.Lock()
	defer s.kept.Unlock()
	s.last[c] = append(s.last[c], id)
	s.add(handle{c.owner, id}, &kept{of: c, body: body}, len(body))
	// While a request continues one body, another may have been answered.
	if len(s.last[c]) > enough {
		if first := s.kept.Get(handle{c.owner, s.last[c][0]}); first != nil {
			s.kept.Drop(first)
		}
	}
	return id
}

// talk returns a session's state, nil for none.
func (s *store) talk(c conversation) *talk {
	s.kept.Lock()
	defer s.kept.Unlock()
	found := s.kept.Get(handle{c.owner, c.name})
	if found == nil {
		return nil
	}
	s.kept.Use(found)
	return found.Value.talk
}

func (s *store) goOn(c conversation, now *talk) {
	s.kept.Lock()
	defer s.kept.Unlock()
	s.add(handle{c.owner, c.name}, &kept{of: c, talk: now}, len(now.body)+len(now.before))
}

// Close implements [shared.Value].
func (s *store) Close() error {
	s.kept.Lock()
	defer s.kept.Unlock()
	s.kept.Clear()
	return nil
}

// add adds an entry, with the lock taken.
func (s *store) add(k handle, v *kept, bytes int) {
	s.kept.Put(k, k.tenant, v, int64(bytes+overhead))
}

func (s *store) dropped(old *lru.Entry[handle, sessioncache.Tenant, *kept]) {
	c := old.Value.of
	s.last[c] = slices.DeleteFunc(s.last[c], func(id string) bool { return id == old.Key.id })
	if len(s.last[c]) == 0 {
		delete(s.last, c)
	}
}
