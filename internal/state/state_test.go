// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"slices"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/clock"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/memory"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/storetest"
)

// backend counts how often it was closed.
type backend struct {
	storetest.Shelf
	closed int
}

func (c *backend) Close() error {
	c.closed++
	return nil
}

// feature is a part of a state.
type feature struct {
	stopped, forgot int
	limit           int64
}

func (f *feature) Stop()                               { f.stopped++ }
func (f *feature) ForgetSession(*sessioncache.Session) { f.forgot++ }
func (*feature) Budget() memory.Part                   { return memory.Prefixes }
func (f *feature) SetLimit(n int64)                    { f.limit = n }
func (*feature) Bytes() int64                          { return 7 }

// silent is a part that needs nothing.
type silent struct{ _ int }

// A part is made once, and takes part in the life of its state.
func TestParts(t *testing.T) {
	of := new(backend)
	store, err := sessioncache.New(sessioncache.Options{Backend: sessioncache.BackendOptions{Open: func() (sessioncache.Backend, error) { return of, nil }}})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Persister().Begin(); err != nil {
		t.Fatal(err)
	}
	s := state.New(shared.Process, store, nil, clock.Machine)
	s.SetBudget(100 << 20)
	make := func() *feature { return new(feature) }
	f := state.Part(s, make)
	if state.Part(s, func() *silent { return new(silent) }) == nil || state.Part(s, make) != f {
		t.Error("the part was made twice")
	}
	if all := slices.Collect(state.Parts[state.Stopper](s)); len(all) != 1 || all[0] != f {
		t.Errorf("stoppers are %v, want the feature", all)
	}
	if want := memory.Prefixes.Of(100 << 20); f.limit != want || s.Used(memory.Prefixes) != 7 {
		t.Errorf("limit %d, used %d; want %d and 7", f.limit, s.Used(memory.Prefixes), want)
	}
	if s.SetBudget(50 << 20); f.limit != memory.Prefixes.Of(50<<20) {
		t.Errorf("limit %d after another budget", f.limit)
	}
	s.Forget(new(sessioncache.Session))
	if err := s.Close(); err != nil || f.forgot != 1 || f.stopped != 1 || of.closed != 1 {
		t.Errorf("%v, forgot %d, stopped %d, closed %d; want 1 each", err, f.forgot, f.stopped, of.closed)
	}
}
