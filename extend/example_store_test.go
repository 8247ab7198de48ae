// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package extend_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/extend"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

func init() { caddy.RegisterModule(MapStore{}) }

var (
	_ extend.Store   = (*MapStore)(nil)
	_ extend.Backend = (*snapshots)(nil)
)

// MapStore keeps snapshots of sessions in a map, where a real store has a server.
type MapStore struct {
	Name string `json:"name,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (MapStore) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "llm_cache.stores.map", New: func() caddy.Module { return new(MapStore) }}
}

// Identity implements extend.Store. Sites and reloads with the same name share one open store.
func (m *MapStore) Identity() string { return m.Name }

// Open implements extend.Store.
func (*MapStore) Open() (*sessioncache.Store, error) {
	return sessioncache.New(sessioncache.Options{Backend: sessioncache.BackendOptions{
		Open: func() (extend.Backend, error) {
			return &snapshots{records: map[sessioncache.Digest]sessioncache.Record{}}, nil
		},
	}})
}

// Adjust implements extend.Store. There are no limits to change.
func (*MapStore) Adjust(*sessioncache.Store) error { return nil }

// snapshots implements extend.Backend.
type snapshots struct {
	mu      sync.Mutex
	records map[sessioncache.Digest]sessioncache.Record
}

func (s *snapshots) Load(_ context.Context, d sessioncache.Digest) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records[d].Snapshot, nil
}

func (s *snapshots) Answered(_ context.Context, answer sessioncache.Digest) (sessioncache.Digest, bool, error) {
	return s.last(func(r sessioncache.Record) bool { return slices.Contains(r.Answers, answer) })
}

func (s *snapshots) Named(_ context.Context, begins [8]byte) (sessioncache.Digest, bool, error) {
	return s.last(func(r sessioncache.Record) bool { return [8]byte(r.Digest[:8]) == begins })
}

// last returns the digest of the record saved last among those that match.
func (s *snapshots) last(match func(sessioncache.Record) bool) (d sessioncache.Digest, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var last sessioncache.Record
	for _, r := range s.records {
		if match(r) && (!ok || r.Used.After(last.Used)) {
			last, ok = r, true
		}
	}
	return last.Digest, ok, nil
}

func (s *snapshots) Save(_ context.Context, records []sessioncache.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range records {
		r.Snapshot = bytes.Clone(r.Snapshot) // the store reuses its memory
		s.records[r.Digest] = r
	}
	return nil
}

func (s *snapshots) Delete(_ context.Context, d sessioncache.Digest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.records, d)
	return nil
}

func (s *snapshots) Usage() (sessions int, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.records {
		size += int64(len(r.Snapshot))
	}
	return len(s.records), size
}

func (*snapshots) Close() error { return nil }

// A Caddyfile names a store in the global options: llm_cache { store map }. The package
// sessioncache/storetest tests a store and its backend.
func ExampleStore() {
	store, err := new(MapStore).Open()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(store.Len(), "sessions")
	fmt.Println(store.Close())
	// Output:
	// 0 sessions
	// <nil>
}
