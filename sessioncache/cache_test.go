// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// decided waits until the cache has decided about all offers.
func decided(st *Store) {
	st.cache.Wait()
	st.removeDropped()
}

// cached returns the number of sessions in the cache.
func cached(st *Store) int {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.cached.sessions
}

// converse commits so many requests of a conversation.
func converse(t testing.TB, st *Store, k Key, requests int) *Session {
	t.Helper()
	var s *Session
	for range requests {
		s = st.Acquire(t.Context(), k)
		commit(s, view(t, user1, nil))
		st.Release(s)
	}
	return s
}

// fill has conversations that have continued take all memory.
func fill(t testing.TB, st *Store) {
	t.Helper()
	for i := 0; st.Stats().Evicted == 0; i++ {
		converse(t, st, Key{Tenant: Tenant{byte(i)}, ID: fmt.Sprint("old ", i)}, 2)
	}
	decided(st)
}

// consistent checks the accounts and the indexes of a store against its sessions.
func consistent(t testing.TB, st *Store) {
	t.Helper()
	decided(st)
	st.mu.Lock()
	defer st.mu.Unlock()
	var bytes int64
	cached, said := 0, 0
	for e := st.newest.Front(); e != nil; e = e.Next() {
		s := e.Value.(*Session)
		_, inCache := st.cache.Get(s.digest[:])
		if s.gone.Load() || st.sessions[s.digest] != s || inCache != (s.offer > 0) || inCache == (s.entry != nil) {
			t.Errorf("session %d: gone %t, in the cache %t, offered %t, in the window %t", s.Number(), s.gone.Load(), inCache,
				s.offer > 0, s.entry != nil)
		}
		if inCache {
			cached, bytes = cached+1, bytes+s.cost
		}
		said += len(s.firsts)
	}
	if cached != st.cached.sessions || bytes != st.cached.bytes || st.window.Len() != st.newest.Len()-cached {
		t.Errorf("%d sessions of %d bytes in the cache, counted as %d of %d; %d in the window of %d in all", cached, bytes,
			st.cached.sessions, st.cached.bytes, st.window.Len(), st.newest.Len())
	}
	if len(st.firsts) > said {
		t.Errorf("%d first turns are indexed, of %d", len(st.firsts), said)
	}
}

// Ten thousand sessions that are opened at once in a full memory are all found at their second turn.
func TestOpenedAtOnce(t *testing.T) {
	const sessions = 10_000
	st := open(t, Options{MaxBytes: 192 << 20})
	defer st.Close()
	fill(t, st)
	key := func(i int) Key { return Key{Tenant: Tenant{byte(i), 1}, ID: fmt.Sprint("new ", i)} }
	all := make([]*Session, sessions)
	var clients sync.WaitGroup
	for c := range 8 {
		clients.Go(func() {
			for i := c; i < sessions; i += 8 {
				all[i] = converse(t, st, key(i), 1)
			}
		})
	}
	clients.Wait()
	lost := 0
	for i, want := range all {
		s := st.Acquire(t.Context(), key(i))
		if s != want || s.Gone() {
			lost++
		}
		st.Release(s)
	}
	if lost > 0 {
		t.Errorf("%d of %d sessions are lost at their second turn", lost, sessions)
	}
	consistent(t, st)
	if got := st.Stats(); got.Bytes > got.MaxBytes {
		t.Errorf("%d bytes are over the bound of %d", got.Bytes, got.MaxBytes)
	}
}

// A conversation that leaves the window is found in the cache, and goes back to the window.
func TestBackFromTheCache(t *testing.T) {
	st := open(t, Options{MaxBytes: MinMaxBytes})
	defer st.Close()
	s := converse(t, st, Key{ID: "s"}, 2)
	for i := 0; s.offer == 0; i++ {
		converse(t, st, Key{ID: fmt.Sprint(i)}, 1)
	}
	consistent(t, st)
	if got := st.Acquire(t.Context(), Key{ID: "s"}); got != s || s.entry == nil || s.offer > 0 {
		t.Errorf("it is another session: %t; in the window: %t; in the cache: %t", got != s, s.entry != nil, s.offer > 0)
	}
	consistent(t, st)
	st.Release(s)
	if st.Delete(s.ID()) != s {
		t.Error("it is not deleted")
	}
	consistent(t, st)
}

// Sessions that expire, in the window and in the cache, are gone from all indexes, and are reported
// once.
func TestExpiredEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := open(t, Options{MaxBytes: MinMaxBytes, IdleTTL: time.Hour})
		defer st.Close()
		reported := map[*Session]int{}
		var mu sync.Mutex
		st.OnEvict(func(s *Session) {
			mu.Lock()
			defer mu.Unlock()
			reported[s]++
		})
		var all []*Session
		for i := 0; st.Stats().Evicted == 0 && i < 1000; i++ {
			all = append(all, converse(t, st, Key{ID: fmt.Sprint(i)}, 2))
		}
		synctest.Wait()
		if cached(st) == 0 {
			t.Error("no session is in the cache")
		}
		time.Sleep(time.Hour + time.Minute)
		synctest.Wait()
		if got := st.Stats(); got.Sessions != 0 || got.Bytes != 0 || got.Expired+got.Evicted != uint64(len(all)) {
			t.Errorf("got %+v, want %d sessions expired", got, len(all))
		}
		st.mu.Lock()
		defer st.mu.Unlock()
		if len(st.sessions)+len(st.firsts)+len(st.said)+st.window.Len() > 0 {
			t.Errorf("left are %d sessions, %d first turns, %d responses, %d sessions in the window", len(st.sessions),
				len(st.firsts), len(st.said), st.window.Len())
		}
		for _, s := range all {
			if !s.Gone() || reported[s] != 1 {
				t.Errorf("session %d: gone %t, reported %d times", s.Number(), s.Gone(), reported[s])
			}
		}
	})
}

// New limits apply to the sessions in the cache, too.
func TestLimitsOfTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := open(t, Options{MaxBytes: 4 * MinMaxBytes, IdleTTL: time.Hour})
		defer st.Close()
		fill(t, st)
		if err := st.SetLimits(Options{MaxBytes: MinMaxBytes, IdleTTL: 2 * time.Hour}); err != nil {
			t.Fatal(err)
		}
		consistent(t, st)
		if got := st.Stats(); got.Bytes > got.MaxBytes || cached(st) == 0 {
			t.Errorf("%d of %d bytes, %d sessions in the cache", got.Bytes, got.MaxBytes, cached(st))
		}
		before := st.Stats().Sessions
		time.Sleep(90 * time.Minute)
		synctest.Wait()
		if got := st.Stats().Sessions; got != before {
			t.Errorf("%d sessions of %d are left before the end of their time", got, before)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := st.Stats().Sessions; got > 0 {
			t.Errorf("%d sessions are left at the end of their time", got)
		}
	})
}

// A tenant with a flood of sessions, continued ones or not, does not displace the sessions that
// others use.
func TestFloodOfATenant(t *testing.T) {
	for _, requests := range []int{1, 2} {
		t.Run(fmt.Sprint(requests, " requests"), func(t *testing.T) {
			st := open(t, Options{MaxBytes: MinMaxBytes})
			defer st.Close()
			var others []*Session
			for i := range 15 {
				others = append(others, converse(t, st, Key{Tenant: Tenant{byte(i)}, ID: "other"}, 1))
			}
			pinned := st.Acquire(t.Context(), Key{Tenant: Tenant{100}, ID: "in use"})
			commit(pinned, view(t, user1, nil))
			st.Keep(pinned)
			for i := range 3000 {
				converse(t, st, Key{Tenant: Tenant{200}, ID: fmt.Sprint(i)}, requests)
			}
			for i, s := range append(others, pinned) {
				if s.Gone() {
					t.Errorf("session %d of another tenant is gone", i)
				}
			}
			st.Release(pinned)
			consistent(t, st)
		})
	}
}

// Each session that leaves the memory is reported once, whatever happens at the same time, and
// nothing runs after the end.
func TestCacheMeetsRequests(t *testing.T) {
	before := runtime.NumGoroutine()
	st := open(t, Options{MaxBytes: MinMaxBytes})
	var reported, deleted atomic.Int64
	var twice sync.Map
	st.OnEvict(func(s *Session) {
		reported.Add(1)
		if _, known := twice.LoadOrStore(s, true); known {
			t.Errorf("session %d is reported twice", s.Number())
		}
	})
	var clients sync.WaitGroup
	for c := range 8 {
		clients.Go(func() {
			for i := range 600 {
				s := converse(t, st, Key{Tenant: Tenant{byte(c % 3)}, ID: fmt.Sprint((i * (c + 7)) % 500)}, 1+i%3)
				switch i % 50 {
				case 0:
					// A session that another client has just begun again is not stored yet.
					if d := st.Delete(s.ID()); d != nil && d.Number() > 0 {
						deleted.Add(1)
					}
				case 1:
					st.pack(s, time.Now().Add(quiet))
				case 2:
					st.SetMaxBytes(MinMaxBytes + int64(i)<<8)
				}
			}
		})
	}
	clients.Wait()
	consistent(t, st)
	st.SetMaxBytes(MinMaxBytes)
	consistent(t, st)
	// The cache decides, and the store reports, in the background.
	got := st.Stats()
	for i := 0; i < 500 && uint64(reported.Load()) != got.Evicted; i++ {
		time.Sleep(10 * time.Millisecond)
		got = st.Stats()
	}
	if uint64(reported.Load()) != got.Evicted || got.Created != uint64(got.Sessions)+got.Evicted+uint64(deleted.Load()) {
		t.Errorf("%d sessions are reported, %d deleted; got %+v", reported.Load(), deleted.Load(), got)
	}
	if got.Bytes > got.MaxBytes {
		t.Errorf("%d bytes are over the bound of %d", got.Bytes, got.MaxBytes)
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
	for range 100 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines run, %d before", runtime.NumGoroutine(), before)
}
