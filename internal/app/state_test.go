// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/storetest"
)

// closing counts how often a backend was closed.
type closing struct {
	storetest.Shelf
	closed int
}

func (c *closing) Close() error {
	c.closed++
	return nil
}

// stateOver returns a state with a backend.
func stateOver(t *testing.T, back *closing) *State {
	t.Helper()
	store, err := sessioncache.New(sessioncache.Options{Backend: sessioncache.BackendOptions{Open: func() (sessioncache.Backend, error) { return back, nil }}})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Persister().Begin(); err != nil {
		t.Fatal(err)
	}
	return NewState(store, nil, time.Now)
}

func TestStateClosesAfterTheLastRequest(t *testing.T) {
	store := new(closing)
	open := func() (*State, error) { return stateOver(t, store), nil }
	a, err := acquire("test", open)
	if err != nil {
		t.Fatal(err)
	}
	b, err := acquire("test", func() (*State, error) { return nil, errors.New("opened twice") })
	if err != nil || a.State != b.State {
		t.Fatalf("two states, %v", err)
	}
	s := a.State
	if !s.Pin() {
		t.Fatal("closed too early")
	}
	for _, l := range []*Lease{a, b} {
		if err := l.Release(); err != nil {
			t.Fatal(err)
		}
	}
	if store.closed != 0 {
		t.Error("closed under a request")
	}
	if !s.Pin() {
		t.Error("no second request may begin while one runs")
	}
	_ = s.Unpin()
	_ = s.Unpin()
	if store.closed != 1 {
		t.Errorf("closed %d times", store.closed)
	}
	if s.Pin() {
		t.Error("a closed store was pinned")
	}
	if _, ok := states.References("test"); ok {
		t.Error("the pool still holds it")
	}
}

func TestStateThatDoesNotOpen(t *testing.T) {
	failed := errors.New("failed")
	if _, err := acquire("bad", func() (*State, error) { return nil, failed }); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
	l, err := acquire("bad", func() (*State, error) { return stateOver(t, new(closing)), nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}

func TestMemoryStoreLimits(t *testing.T) {
	for _, m := range []MemoryStore{{IdleTTL: 1}, {IdleTTL: -1}} {
		if err := m.Provision(caddy.Context{}); err == nil {
			t.Errorf("%+v was accepted", m)
		}
	}
	m := new(MemoryStore)
	if err := m.Provision(caddy.Context{}); err != nil || m.IdleTTL != caddy.Duration(sessioncache.DefaultIdleTTL) {
		t.Errorf("defaults are %+v, %v", m, err)
	}
}
