// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	_ "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/formats"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// openStore opens a store over a file, and counts failures.
func openStore(t *testing.T, path string) (*Disk, *sessioncache.Store, *atomic.Int64) {
	t.Helper()
	d, err := Open(Options{Path: path, MaxBytes: 64 << 20, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	failures := new(atomic.Int64)
	s, err := sessioncache.New(sessioncache.Options{Backend: sessioncache.BackendOptions{
		Open:     func() (sessioncache.Backend, error) { return d, nil },
		Interval: 20 * time.Millisecond, Budget: time.Minute, Failed: func(string, error) { failures.Add(1) },
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Persister().Begin(); err != nil {
		t.Fatal(err)
	}
	return d, s, failures
}

// talks are conversations, by their messages.
type talks []string

// turn has a conversation go on. All of it but the last turn must be known.
func (k talks) turn(t *testing.T, store *sessioncache.Store, i int) {
	t.Helper()
	k[i] += fmt.Sprintf(`{"role":"user","content":"%d %d"}`, i, len(k[i]))
	v, err := wire.Parse(wire.Anthropic, []byte(`{"model":"m","messages":[`+k[i]+`]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := store.Acquire(t.Context(), keyOf(i))
	s.Lock()
	match := s.Match(v)
	if match.Common < len(v.MessageBlocks())-2 {
		t.Errorf("session %d: %d blocks of %d are known", i, match.Common, len(v.MessageBlocks()))
	}
	s.Commit(match, v, sessioncache.NewBlockStates(len(v.MessageBlocks())))
	s.Unlock()
	store.Release(s)
	k[i] += `,{"role":"assistant","content":"yes"},`
}

// runsFull continues conversations while the medium is full. fill and clear begin and end this. No
// conversation is lost, written sessions stay, and the rest wait in memory until there is room.
func runsFull(t *testing.T, path string, fill, clear func(d *Disk)) {
	t.Helper()
	d, store, failures := openStore(t, path)
	const sessions = 100
	said := make(talks, sessions)
	for i := range sessions / 2 {
		said.turn(t, store, i)
	}
	until(t, "half of them are written", func() bool { n, _ := d.Usage(); return n >= sessions/2 })
	fill(d)
	for i := range sessions {
		said.turn(t, store, i)
	}
	until(t, "it is found to be full", func() bool { return failures.Load() > 0 })
	for i := range sessions {
		said.turn(t, store, i)
	}
	for i := range sessions / 2 {
		if b, err := d.Load(t.Context(), keyOf(i).Digest()); err != nil || len(b) == 0 {
			t.Fatalf("session %d was written, and is gone: %v", i, err)
		}
	}
	clear(d)
	until(t, "all of them are written", func() bool { n, _ := d.Usage(); return n >= sessions })
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	_, store, _ = openStore(t, path)
	defer store.Close()
	for i := range sessions {
		said.turn(t, store, i)
	}
}

// A database that may not grow costs no conversation.
func TestFullDisk(t *testing.T) {
	room := func(d *Disk, pages int) {
		if _, err := d.db.Exec(fmt.Sprintf("PRAGMA max_page_count=%d", pages)); err != nil {
			t.Fatal(err)
		}
	}
	runsFull(t, filepath.Join(t.TempDir(), "sessions.db"), func(d *Disk) {
		var pages int
		if err := d.db.QueryRow("PRAGMA page_count").Scan(&pages); err != nil {
			t.Fatal(err)
		}
		room(d, pages)
	}, func(d *Disk) { room(d, 1<<30) })
}

func keyOf(i int) sessioncache.Key {
	return sessioncache.Key{Tenant: sessioncache.Tenant{1}, Upstream: "u", ID: fmt.Sprint(i)}
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never came: %s", what)
		}
	}
}
