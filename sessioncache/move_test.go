// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/storetest"
)

func opened(t *testing.T) *sessioncache.Store {
	t.Helper()
	s, err := sessioncache.New(sessioncache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.Names(secret.Key{1})
	return s
}

func over(t *testing.T, s *sessioncache.Store, shelf *storetest.Shelf, key secret.Key) *sessioncache.Persister {
	t.Helper()
	p, err := s.Prepare(sessioncache.BackendOptions{
		Open: func() (sessioncache.Backend, error) { return shelf, nil }, Key: key,
		Failed: func(what string, err error) { t.Errorf("%s: %v", what, err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The store conforms while its backend changes.
func TestMovingStoreConforms(t *testing.T) {
	storetest.Store(t, func(t *testing.T) *sessioncache.Store {
		s := opened(t)
		done := make(chan struct{})
		var mover sync.WaitGroup
		mover.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				var to *sessioncache.Persister
				if n%3 > 0 {
					to = over(t, s, new(storetest.Shelf), secret.Key{byte(n)})
				}
				if err := s.Move(to); err != nil {
					t.Error(err)
				}
			}
		})
		t.Cleanup(func() {
			close(done)
			mover.Wait()
			_ = s.Move(nil)
		})
		return s
	})
}

// After a move the memory's sessions are in the new place, under its key, and keep their names.
// Pending writes to the old place are finished. A place that is opened and not used gets nothing.
func TestMove(t *testing.T) {
	s := opened(t)
	k := func(id string) sessioncache.Key {
		return sessioncache.Key{Tenant: sessioncache.Tenant{1}, Upstream: "u", ID: id}
	}
	commit := func(id string) {
		t.Helper()
		x := s.Acquire(t.Context(), k(id))
		defer s.Release(x)
		v, err := wire.Parse(wire.Anthropic, fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user","content":"%s"}]}`,
			id), nil)
		if err != nil {
			t.Fatal(err)
		}
		x.Lock()
		defer x.Unlock()
		x.CountRequest(x.Commit(x.Match(v), v, sessioncache.NewBlockStates(1)))
	}
	var one, other, unused storetest.Shelf
	commit("in memory")
	move := func(shelf *storetest.Shelf, key secret.Key) {
		t.Helper()
		if err := s.Move(over(t, s, shelf, key)); err != nil {
			t.Fatal(err)
		}
	}
	move(&one, secret.Key{7})
	commit("in one")
	idle := over(t, s, &unused, secret.Key{7})
	if err := idle.Begin(); err != nil {
		t.Fatal(err)
	}
	if err := idle.Close(); err != nil {
		t.Fatal(err)
	}
	move(&other, secret.Key{8})
	commit("in the other")
	if err := s.Persister().SetKey(secret.Key{9}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		shelf *storetest.Shelf
		key   secret.Key
		names []string
	}{
		{&one, secret.Key{7}, []string{"in memory", "in one"}},
		{&other, secret.Key{9}, []string{"in memory", "in one", "in the other"}},
	} {
		again, err := sessioncache.New(sessioncache.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Move(over(t, again, c.shelf, c.key)); err != nil {
			t.Fatal(err)
		}
		if again.Names(secret.Key{2}) != (secret.Key{1}) {
			t.Error("the key that tenants are told apart by is lost")
		}
		for _, name := range c.names {
			x := again.Acquire(t.Context(), k(name))
			if x.Number() == 0 {
				t.Errorf("%s: nothing is known of it", name)
			}
			again.Release(x)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(unused.Records()); n > 0 {
		t.Errorf("%d records are where they do not belong", n)
	}
}
