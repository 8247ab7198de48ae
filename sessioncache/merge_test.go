// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache_test

import (
	"errors"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/storetest"
)

// Two processes that went on by themselves while the backend failed are one again: the
// longer conversation counts, and none is lost.
func TestMergesAfterFailure(t *testing.T) {
	shelf := new(storetest.SharedShelf)
	one, other := sharing(t, shelf), sharing(t, shelf)
	converse(t, one, firstMessage)
	converse(t, other, sideMessage)
	shelf.Fail = func() error { return errors.New("down") }
	converse(t, one, moreMessages)
	converse(t, other, sideMessage+`,{"role":"assistant","content":"yes"},{"role":"user","content":"go on"}`)
	shelf.Fail = nil
	for _, d := range []*sessioncache.Store{one, other} { // the end writes all pending changes
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	s := sharing(t, shelf).Acquire(t.Context(), sharedKey)
	s.Lock()
	defer s.Unlock()
	lengths := map[int]int{}
	for id := range 3 {
		if l := s.Conversation(id); l != nil {
			lengths[l.Len()]++
		}
	}
	if len(lengths) != 1 || lengths[3] != 2 {
		t.Errorf("lengths of conversations: %v", lengths)
	}
}

// Conversations that begin in different processes under one number stay apart, and each
// keeps the number under which it was written first.
func TestBeginsApart(t *testing.T) {
	const other = `{"role":"user","content":"another"}`
	shelf := new(storetest.SharedShelf)
	nodes := []*sessioncache.Store{sharing(t, shelf), sharing(t, shelf)}
	converse(t, nodes[0], firstMessage)
	converse(t, nodes[1], sideMessage) // the start of a conversation asks no other process
	said, answer := []string{firstMessage, sideMessage, other},
		`,{"role":"assistant","content":"yes"},{"role":"user","content":"go on"}`
	converse(t, nodes[0], said[2])
	for round := range 4 {
		for i := range said {
			said[i] += answer
			s, l := converse(t, nodes[(i+round)%2], said[i])
			if want := round + 2; l.Requests != want {
				t.Errorf("round %d: conversation %d has run %d requests, not %d", round, i, l.Requests, want)
			}
			if n := conversations(s); n != len(said) {
				t.Errorf("round %d: there are %d conversations, not %d", round, n, len(said))
			}
		}
	}
}

// A conversation that two processes begin at the same moment is one.
func TestBeginsTwice(t *testing.T) {
	shelf := new(storetest.SharedShelf)
	one, other := sharing(t, shelf), sharing(t, shelf)
	converse(t, one, sideMessage)
	claim(t, one, firstMessage)
	v, err := wire.Parse(wire.Anthropic, []byte(`{"model":"m","messages":[`+firstMessage+`]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	k := sharedKey
	k.Request = v
	s := other.Acquire(t.Context(), k)
	s.Lock()
	m, states := s.Match(v), sessioncache.NewBlockStates(len(v.MessageBlocks()))
	s.Unlock()
	if !other.Claim(t.Context(), s, m, v, states, func(*sessioncache.Conversation) {}) {
		t.Fatal("both send the same, and the second has lost")
	}
	s.Lock()
	l := s.Commit(m, v, states)
	s.Unlock()
	other.Release(s)
	other.Flush()
	if n := conversations(s); n != 2 || l.Claimed() {
		t.Errorf("there are %d conversations of 2, claimed: %t", n, l.Claimed())
	}
}

// The claim of a lost request does not affect the later progress of the conversation elsewhere.
func TestClaimsEndElsewhere(t *testing.T) {
	const answer = `,{"role":"assistant","content":"yes"},{"role":"user","content":"go on"}`
	for name, further := range map[string][]string{"answered": nil, "gone on": {moreMessages + answer}} {
		t.Run(name, func(t *testing.T) {
			shelf := new(storetest.SharedShelf)
			one, other := sharing(t, shelf), sharing(t, shelf)
			converse(t, one, firstMessage)
			claim(t, one, moreMessages) // it is lost, and sent again to another process
			claim(t, other, moreMessages)
			_, l := converse(t, other, moreMessages)
			for _, messages := range further {
				converse(t, other, messages)
			}
			converse(t, one, sideMessage)
			s := sharing(t, shelf).Acquire(t.Context(), sharedKey)
			s.Lock()
			defer s.Unlock()
			blocks, requests := 3+2*len(further), 2+len(further)
			if got := s.Conversation(l.ID()); got.Len() != blocks || got.Claimed() || got.Requests != requests {
				t.Errorf("it is written with %d blocks of %d and %d requests of %d, claimed: %t", got.Len(), blocks, got.Requests,
					requests, got.Claimed())
			}
		})
	}
}

// A conversation without further edits stays so, whichever process writes it.
func TestFrozenStaysFrozen(t *testing.T) {
	shelf := new(storetest.SharedShelf)
	one, other := sharing(t, shelf), sharing(t, shelf)
	a, l := converse(t, one, firstMessage)
	b := other.Acquire(t.Context(), sharedKey)
	b.Lock()
	b.Conversation(l.ID()).Refused = wire.EditText // its next request was refused there
	b.Unlock()
	a.KeepWarm(l.ID(), time.Now())
	one.Publish(a)
	one.Flush()
	other.Release(b)
	other.Flush()
	s := sharing(t, shelf).Acquire(t.Context(), sharedKey)
	s.Lock()
	defer s.Unlock()
	if !s.Conversation(l.ID()).Refused.Has(wire.EditText) {
		t.Error("it is edited again")
	}
}

// conversations counts the conversations of a session.
func conversations(s *sessioncache.Session) (n int) {
	s.Lock()
	defer s.Unlock()
	for id := range 100 {
		if s.Conversation(id) != nil {
			n++
		}
	}
	return n
}
