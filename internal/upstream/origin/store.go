// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"bytes"
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// overhead is what a body takes besides itself, in bytes.
const overhead = 512

// store keeps bodies that edges go on from.
type store struct {
	limits retain.Limits
	key    tenant.Key
	now    func() time.Time

	mu   sync.Mutex
	kept *lru.Cache[handle, sessioncache.Tenant, *kept]
	last map[conversation][]string // the ids of its bodies, in order

	sweeps bool // what has run out is forgotten
}

// handle names a body.
type handle struct {
	owner
	id string
}

// conversation is what an edge takes for one.
type conversation struct {
	owner
	name string
}

// enough is how many bodies of a conversation are kept: while a request is on its way
// that goes on from one, another may have been answered.
const enough = 2

// kept is a body.
type kept struct {
	of    conversation
	body  []byte
	talk  *talk // of a session, in the place of a body
	until time.Time
}

func newStore(l retain.Limits, now func() time.Time) *store {
	s := &store{limits: l, now: now, kept: lru.New[handle, sessioncache.Tenant, *kept](), last: map[conversation][]string{}}
	_, _ = rand.Read(s.key.Secret[:]) // never fails
	return s
}

// get returns a body, nil if it is not kept.
func (s *store) get(o owner, id string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	found := s.kept.Get(handle{o, id})
	if found == nil {
		return nil
	}
	s.kept.Use(found)
	found.Value.until = s.now().Add(s.limits.Life)
	return found.Value.body
}

// put keeps a body of a conversation, and returns its name.
func (s *store) put(c conversation, body []byte) (id string) {
	if cap(body) > len(body)+len(body)/8 {
		body = bytes.Clone(body)
	}
	id = rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	s.last[c] = append(s.last[c], id)
	s.add(handle{c.owner, id}, &kept{of: c, body: body, until: s.now().Add(s.limits.Life)}, len(body))
	if len(s.last[c]) > enough {
		s.drop(s.kept.Get(handle{c.owner, s.last[c][0]}))
	}
	return id
}

// talk returns what is known of a session, nil if nothing is.
func (s *store) talk(c conversation) *talk {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	found := s.kept.Get(handle{c.owner, c.name})
	if found == nil {
		return nil
	}
	s.kept.Use(found)
	found.Value.until = s.now().Add(s.limits.Life)
	return found.Value.talk
}

// goOn notes how a session stands.
func (s *store) goOn(c conversation, now *talk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	k := handle{c.owner, c.name}
	if before := s.kept.Get(k); before != nil {
		s.drop(before)
	}
	s.add(k, &kept{of: c, talk: now, until: s.now().Add(s.limits.Life)}, len(now.body)+len(now.before))
}

// Destruct implements caddy.Destructor.
func (s *store) Destruct() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for old := range s.kept.Oldest() {
		s.drop(old)
	}
	return nil
}

// sweep is expire when its time has come.
func (s *store) sweep() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.expire()
	s.sweeps = next > 0
	return next
}

// add takes something in and makes room for it: whoever has most gives way first. It is
// called with the lock held, as are expire and drop.
func (s *store) add(k handle, v *kept, bytes int) {
	size := int64(bytes + overhead)
	s.kept.Put(k, k.tenant, v, size)
	heldBytes.Add(float64(size))
	if !s.sweeps {
		s.sweeps = true
		retain.Sweep(s, s.limits.Life, (*store).sweep)
	}
	for s.kept.Bytes() > s.limits.Memory {
		of, _ := s.kept.Heaviest()
		for old := range s.kept.OldestOf(of) {
			s.drop(old)
			break
		}
	}
}

// expire forgets what nobody has used, and returns how long the next stays: 0 if nothing
// is left.
func (s *store) expire() time.Duration {
	now := s.now()
	for old := range s.kept.Oldest() {
		if old.Value.until.After(now) {
			return old.Value.until.Sub(now)
		}
		s.drop(old)
	}
	return 0
}

func (s *store) drop(old *lru.Entry[handle, sessioncache.Tenant, *kept]) {
	heldBytes.Sub(float64(old.Size()))
	s.kept.Drop(old)
	c := old.Value.of
	s.last[c] = slices.DeleteFunc(s.last[c], func(id string) bool { return id == old.Key.id })
	if len(s.last[c]) == 0 {
		delete(s.last, c)
	}
}
