// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache_test

import (
	"encoding/binary"
	"strconv"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/storetest"
)

// madeUp returns the key of a new tenant.
func madeUp(i int) sessioncache.Key {
	k := sharedKey
	binary.BigEndian.PutUint32(k.Tenant[4:], uint32(i)+1)
	return k
}

// comes has a request come, which the upstream answers, refuses, or accepts without an end.
func comes(t *testing.T, store *sessioncache.Store, k sessioncache.Key, turns int, what string) {
	t.Helper()
	messages := firstMessage
	for range turns {
		messages += `,{"role":"assistant","content":"a"},{"role":"user","content":"b"}`
	}
	v, err := wire.Parse(wire.Anthropic, []byte(`{"model":"m","messages":[`+messages+`]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	k.Request = v
	s := store.Acquire(t.Context(), k)
	defer store.Release(s)
	s.Lock()
	defer s.Unlock()
	m := s.Match(v)
	if what != "refused" {
		l := s.Commit(m, v, sessioncache.NewBlockStates(len(v.MessageBlocks())))
		if what == "answered" {
			s.CountRequest(l)
		}
	}
}

// Made-up tenants, however many, do not push out a tenant with conversations: not by requests
// that are refused, nor by requests that are accepted and come to nothing, nor by first answers.
func TestMadeUpTenants(t *testing.T) {
	for _, what := range []string{"refused", "accepted", "answered"} {
		t.Run(what, func(t *testing.T) {
			m, err := sessioncache.New(sessioncache.Options{MaxBytes: 2 * sessioncache.MinMaxBytes})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			const conversations = 60 // most of the cache, which is a quarter of the memory
			of := func(i int) sessioncache.Key {
				k := sharedKey
				k.ID = strconv.Itoa(i)
				return k
			}
			for turn := range 3 {
				for i := range conversations {
					comes(t, m, of(i), turn, "answered")
				}
			}
			before := m.Stats()
			for i := range 10_000 {
				comes(t, m, madeUp(i), 0, what)
			}
			after := m.Stats()
			if after.Bytes > after.MaxBytes || what == "refused" &&
				(after.Sessions != before.Sessions || after.Bytes != before.Bytes) {
				t.Errorf("got %d sessions of %d bytes, want %d of %d at most", after.Sessions, after.Bytes, before.Sessions,
					after.MaxBytes)
			}
			for i := range conversations {
				s := m.Acquire(t.Context(), of(i))
				if s.Number() == 0 {
					t.Errorf("conversation %d of the tenant is gone", i)
				}
				m.Release(s)
			}
		})
	}
}

// Refused requests with claimed edits leave nothing at the backend.
func TestRefusedClaimsLeaveNothing(t *testing.T) {
	shelf := new(storetest.SharedShelf)
	d := sharing(t, shelf)
	converse(t, d, firstMessage)
	before := len(shelf.Records())
	v, err := wire.Parse(wire.Anthropic, []byte(`{"model":"m","messages":[`+firstMessage+`]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		k := madeUp(i)
		k.Request = v
		s := d.Acquire(t.Context(), k)
		s.Lock()
		m := s.Match(v)
		s.Unlock()
		d.Claim(t.Context(), s, m, v, sessioncache.NewBlockStates(1), func(*sessioncache.Conversation) {})
		if _, now, _ := shelf.Fetch(t.Context(), k.Digest(), 0); now == 0 {
			t.Fatal("the edits are not claimed")
		}
		d.Release(s) // the upstream has answered 401
	}
	d.Flush()
	if got := len(shelf.Records()); got != before {
		t.Errorf("got %d records, want %d", got, before)
	}
	for i := range 100 {
		if _, now, _ := shelf.Fetch(t.Context(), madeUp(i).Digest(), 0); now != 0 {
			t.Errorf("something is left of made-up tenant %d: version %d", i, now)
		}
	}
}
