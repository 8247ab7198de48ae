// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package valkey

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Refused requests of 10,000 made-up tenants leave no key at the server, and nothing in memory.
func TestStrangersLeaveNoKeys(t *testing.T) {
	m := miniredis.RunT(t)
	v := open(t, m)
	v.watch.on.Store(true) // as with client tracking
	d, err := sessioncache.New(sessioncache.Options{Backend: sessioncache.BackendOptions{Open: func() (sessioncache.Backend, error) { return v, nil }, Budget: 10 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	_, _ = passage(t, d, 0, 0)
	d.Flush()
	before := len(m.Keys())
	request, err := wire.Parse(wire.Anthropic, []byte(`{"model":"m","messages":[{"role":"user","content":"hello"}]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10_000 {
		k := keyOf(0)
		binary.BigEndian.PutUint32(k.Tenant[4:], uint32(i)+1)
		k.Request = request
		s := d.Acquire(t.Context(), k)
		s.Lock()
		match := s.Match(request)
		s.Unlock()
		if i%20 == 0 { // with an edit
			d.Claim(t.Context(), s, match, request, sessioncache.NewBlockStates(1), func(*sessioncache.Conversation) {})
		}
		d.Release(s)
	}
	d.Flush()
	if got := len(m.Keys()); got != before {
		t.Errorf("got %d keys, want %d", got, before)
	}
	if got := d.Stats().Sessions; got != 1 {
		t.Errorf("got %d sessions in memory, want 1", got)
	}
	v.watch.mu.Lock()
	defer v.watch.mu.Unlock()
	if got := len(v.watch.versions); got > 2 {
		t.Errorf("got %d sessions watched, want 2 at most", got)
	}
}

// The number of watched sessions is bounded, regardless of the server's contents.
func TestWatchesWithinBounds(t *testing.T) {
	var w watch
	w.on.Store(true)
	for i := range uint64(2 * maxWatched) {
		w.writes([8]byte(binary.BigEndian.AppendUint64(nil, i)))
		w.wrote([8]byte(binary.BigEndian.AppendUint64(nil, i)), 1)
	}
	if got := len(w.versions); got != maxWatched {
		t.Errorf("got %d sessions watched, want %d", got, maxWatched)
	}
}
