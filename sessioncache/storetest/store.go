// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Store tests a store. open returns an empty store for each test. [Backend] tests the persistence
// of a store.
func Store(t *testing.T, open func(t *testing.T) *sessioncache.Store) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, *sessioncache.Store){
		"Accepted": accepted, "Refused": refused, "Tenants": tenants, "ByAnswer": byAnswer, "Forgets": forgets,
		"Pages": pages, "Together": together,
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			test(t, s)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func key(tenant byte, id string) sessioncache.Key {
	return sessioncache.Key{Tenant: sessioncache.Tenant{tenant}, Upstream: "u", ID: id}
}

// request returns a request that continues a conversation with so many blocks.
func request(blocks int) (*wire.View, error) {
	body := []byte(`{"model":"m","messages":[`)
	for i := range blocks {
		role := "user"
		if i%2 == 1 {
			role = "assistant"
		}
		if i > 0 {
			body = append(body, ',')
		}
		body = fmt.Appendf(body, `{"role":%q,"content":"message %d"}`, role, i)
	}
	return wire.Parse(wire.Anthropic, append(body, "]}"...), nil)
}

// commit commits a request in a session, as if an upstream had accepted it.
func commit(t *testing.T, store *sessioncache.Store, s *sessioncache.Session, blocks int) *sessioncache.Conversation {
	t.Helper()
	v, err := request(blocks)
	if err != nil {
		t.Error(err)
		return nil
	}
	s.Lock()
	l := s.Commit(s.Match(v), v, sessioncache.NewBlockStates(blocks))
	s.CountRequest(l)
	s.Unlock()
	store.Keep(s)
	return l
}

func accepted(t *testing.T, store *sessioncache.Store) {
	s := store.Acquire(t.Context(), key(1, "a"))
	first := commit(t, store, s, 1)
	store.Release(s)
	again := store.Acquire(t.Context(), key(1, "a"))
	defer store.Release(again)
	if again != s || commit(t, store, again, 3) != first || first.Requests != 2 {
		t.Errorf("a conversation goes on in another: %d requests", first.Requests)
	}
	if store.Find(s.ID()) != s || s.Gone() || s.Number() == 0 {
		t.Error("a session is not found by its public id")
	}
	v, _ := request(1)
	known := store.Recall(sessioncache.Tenant{1}, v.First())
	if known == nil || known.First() != v.First() {
		t.Error("a conversation is not found by how it begins")
	}
	known.Unpin()
	if n := store.Stats().Sessions; n != 1 {
		t.Errorf("%d sessions are held", n)
	}
}

// A session without an accepted request leaves no trace.
func refused(t *testing.T, store *sessioncache.Store) {
	s := store.Acquire(t.Context(), key(1, "a"))
	if other := store.Acquire(t.Context(), key(1, "a")); other != s {
		t.Error("two requests of a session get two")
	} else {
		store.Release(other)
	}
	store.Release(s)
	if s.Number() != 0 || store.Stats().Sessions != 0 || len(store.Page(sessioncache.Newest, 10)) != 0 {
		t.Error("a session is held in which nothing was accepted")
	}
	again := store.Acquire(t.Context(), key(1, "a"))
	defer store.Release(again)
	if again == s {
		t.Error("it is still there")
	}
}

// Tenants share nothing.
func tenants(t *testing.T, store *sessioncache.Store) {
	a, b := store.Acquire(t.Context(), key(1, "same")), store.Acquire(t.Context(), key(2, "same"))
	if a == b || a.ID() == b.ID() {
		t.Error("two tenants share a session")
	}
	commit(t, store, a, 1)
	v, _ := request(1)
	if known := store.Recall(sessioncache.Tenant{2}, v.First()); known != nil {
		t.Error("what one tenant has sent is known to another")
	}
	store.Release(a)
	store.Release(b)
	k := key(2, "other")
	k.Answer = wire.AnswerID("msg")
	if s := store.Acquire(t.Context(), k); s == a {
		t.Error("one tenant gets another's session")
	} else {
		store.Release(s)
	}
}

func byAnswer(t *testing.T, store *sessioncache.Store) {
	s := store.Acquire(t.Context(), key(1, "a"))
	l := commit(t, store, s, 1)
	s.Lock()
	l.Reply = wire.AnswerID("msg")
	s.Unlock()
	store.Release(s)
	k := key(1, "by another name")
	k.Answer = wire.AnswerID("msg")
	if again := store.Acquire(t.Context(), k); again != s {
		t.Error("a session is not found by its answer")
	} else {
		store.Release(again)
	}
	k.Upstream = "another"
	if other := store.Acquire(t.Context(), k); other == s {
		t.Error("a session is found by its answer at another upstream")
	} else {
		store.Release(other)
	}
}

func forgets(t *testing.T, store *sessioncache.Store) {
	s := store.Acquire(t.Context(), key(1, "a"))
	commit(t, store, s, 1)
	if store.Delete("0000000000000000") != nil {
		t.Error("a session was deleted that is none")
	}
	if store.Delete(s.ID()) != s || !s.Gone() {
		t.Error("a session is not gone that was deleted")
	}
	commit(t, store, s, 3) // a request in flight at the deletion
	store.Release(s)
	if store.Find(s.ID()) != nil || store.Stats().Sessions != 0 {
		t.Error("a session that was deleted is found")
	}
	again := store.Acquire(t.Context(), key(1, "a"))
	defer store.Release(again)
	v, _ := request(3)
	again.Lock()
	defer again.Unlock()
	if again == s || again.Match(v).Conversation != nil {
		t.Error("something is left of a session that was deleted")
	}
}

func pages(t *testing.T, store *sessioncache.Store) {
	for i := range 5 {
		s := store.Acquire(t.Context(), key(1, fmt.Sprint(i)))
		commit(t, store, s, 1)
		store.Release(s)
	}
	var seen []uint64
	for before := uint64(sessioncache.Newest); ; before = seen[len(seen)-1] {
		page := store.Page(before, 2)
		if len(page) == 0 {
			break
		}
		for _, s := range page {
			if len(seen) > 0 && s.Number() >= seen[len(seen)-1] {
				t.Fatalf("number %d comes behind %d", s.Number(), seen[len(seen)-1])
			}
			seen = append(seen, s.Number())
		}
	}
	if len(seen) != 5 {
		t.Errorf("%d sessions on all pages", len(seen))
	}
}

// Many concurrent requests, some in one session, and some while the store closes.
func together(t *testing.T, store *sessioncache.Store) {
	var wait sync.WaitGroup
	for g := range 8 {
		wait.Go(func() {
			for i := range 100 {
				s := store.Acquire(t.Context(), key(byte(g%2), fmt.Sprint(i%7)))
				commit(t, store, s, 1+2*(i%3))
				store.Release(s)
			}
		})
	}
	wait.Wait()
	if n := store.Stats().Sessions; n != 14 {
		t.Errorf("%d sessions are held", n)
	}
	late := store.Acquire(t.Context(), key(1, "late"))
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	commit(t, store, late, 1)
	store.Release(late)
}
