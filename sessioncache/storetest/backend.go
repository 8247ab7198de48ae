// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package storetest tests implementations of stores: [Backend] tests a [sessioncache.Backend], and
// [Store] a [sessioncache.Store]. Call one of them in a test of your own module.
package storetest

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Backend tests a backend. The first call of open in a test returns an empty backend. A later call,
// after Close, returns a backend with the saved records.
func Backend(t *testing.T, open func(t *testing.T) sessioncache.Backend) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, func(*testing.T) sessioncache.Backend){
		"Keeps": keeps, "Replaces": replaces, "Deletes": deletes, "Answers": answers, "OutlivesItself": outlivesItself,
		"Concurrent": concurrent,
	} {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

func digest(n byte) sessioncache.Digest { return sessioncache.Digest{n, 1, 2, 3, 4, 5, 6, 7, n} }

func record(n byte, snapshot string, answers ...byte) sessioncache.Record {
	r := sessioncache.Record{
		Digest: digest(n), Tenant: sessioncache.Tenant{n}, Used: time.Now(),
		Snapshot: []byte(snapshot),
	}
	for _, a := range answers {
		r.Answers = append(r.Answers, digest(100+a))
	}
	return r
}

func save(t *testing.T, b sessioncache.Backend, records ...sessioncache.Record) {
	t.Helper()
	if err := b.Save(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	for i := range records { // the memory of the snapshots is reused after a save
		clear(records[i].Snapshot)
	}
}

func loads(t *testing.T, b sessioncache.Backend, n byte, want string) {
	t.Helper()
	got, err := b.Load(t.Context(), digest(n))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("session %d is %q, not %q", n, got, want)
	}
}

func shut(t *testing.T, b sessioncache.Backend) {
	t.Helper()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// A saved record can be loaded under its name only, at any length.
func keeps(t *testing.T, open func(*testing.T) sessioncache.Backend) {
	b := open(t)
	defer shut(t, b)
	loads(t, b, 1, "")
	long := string(bytes.Repeat([]byte("long\x00"), 100_000))
	save(t, b, record(1, "one"), record(2, long))
	loads(t, b, 1, "one")
	loads(t, b, 2, long)
	loads(t, b, 3, "")
	if d, ok, err := b.Named(t.Context(), begins(2)); err != nil || !ok || d != digest(2) {
		t.Errorf("by its public id: %x, %t, %v", d, ok, err)
	}
	if _, ok, err := b.Named(t.Context(), [8]byte{9}); err != nil || ok {
		t.Errorf("by a public id that nobody has: %t, %v", ok, err)
	}
	if n, size := b.Usage(); (n != 2 || size < int64(len(long))) && !uncounted(b) {
		t.Errorf("%d sessions of %d bytes are kept", n, size)
	}
	own := record(0, "the store's own")
	own.Digest = sessioncache.Digest{}
	save(t, b, own)
	if got, err := b.Load(t.Context(), own.Digest); err != nil || string(got) != "the store's own" {
		t.Errorf("the record of the store itself is %q, %v", got, err)
	}
}

func replaces(t *testing.T, open func(*testing.T) sessioncache.Backend) {
	b := open(t)
	defer shut(t, b)
	save(t, b, record(1, "old", 1), record(2, "other"))
	save(t, b, record(1, "new", 2))
	loads(t, b, 1, "new")
	loads(t, b, 2, "other")
	if _, ok, err := b.Answered(t.Context(), digest(101)); err != nil || ok {
		t.Errorf("an answer that the session has no more: %t, %v", ok, err)
	}
	if n, _ := b.Usage(); n != 2 && !uncounted(b) {
		t.Errorf("%d sessions are kept", n)
	}
}

func deletes(t *testing.T, open func(*testing.T) sessioncache.Backend) {
	b := open(t)
	defer shut(t, b)
	save(t, b, record(1, "one", 1), record(2, "two", 2))
	for range 2 { // the second time the session is gone
		if err := b.Delete(t.Context(), digest(1)); err != nil {
			t.Fatal(err)
		}
	}
	loads(t, b, 1, "")
	loads(t, b, 2, "two")
	if _, ok, _ := b.Answered(t.Context(), digest(101)); ok {
		t.Error("a session that was deleted is found by its answer")
	}
	if _, ok, _ := b.Named(t.Context(), begins(1)); ok {
		t.Error("a session that was deleted is found by its public id")
	}
}

func answers(t *testing.T, open func(*testing.T) sessioncache.Backend) {
	b := open(t)
	defer shut(t, b)
	save(t, b, record(1, "one", 1, 2))
	save(t, b, record(2, "two", 2, 3))
	for answer, of := range map[byte]byte{1: 1, 2: 2, 3: 2} { // the last session with the answer
		if d, ok, err := b.Answered(t.Context(), digest(100+answer)); err != nil || !ok || d != digest(of) {
			t.Errorf("answer %d: %x, %t, %v", answer, d, ok, err)
		}
	}
	if _, ok, err := b.Answered(t.Context(), digest(109)); err != nil || ok {
		t.Errorf("an answer that nobody gave: %t, %v", ok, err)
	}
}

func outlivesItself(t *testing.T, open func(*testing.T) sessioncache.Backend) {
	b := open(t)
	save(t, b, record(1, "one", 1), record(2, "two"))
	if err := b.Delete(t.Context(), digest(2)); err != nil {
		t.Fatal(err)
	}
	shut(t, b)
	b = open(t)
	defer shut(t, b)
	loads(t, b, 1, "one")
	loads(t, b, 2, "")
	if d, ok, err := b.Answered(t.Context(), digest(101)); err != nil || !ok || d != digest(1) {
		t.Errorf("the answer: %x, %t, %v", d, ok, err)
	}
	if n, _ := b.Usage(); n != 1 && !uncounted(b) {
		t.Errorf("%d sessions are kept", n)
	}
}

// Readers and the one writer do not disturb each other.
func concurrent(t *testing.T, open func(*testing.T) sessioncache.Backend) {
	b := open(t)
	defer shut(t, b)
	save(t, b, record(1, "0"))
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range 50 {
				if got, err := b.Load(context.Background(), digest(1)); err != nil || len(got) == 0 {
					t.Errorf("%q, %v", got, err)
					return
				}
			}
		})
	}
	for i := range 50 {
		save(t, b, record(1, fmt.Sprint(i)), record(byte(2+i), "another"))
	}
	wait.Wait()
	loads(t, b, 1, "49")
}

// uncounted reports whether a shared backend does not count its records.
func uncounted(b sessioncache.Backend) bool {
	_, shared := b.(sessioncache.Shared)
	n, size := b.Usage()
	return shared && n == 0 && size == 0
}

func begins(n byte) [8]byte {
	d := digest(n)
	return [8]byte(d[:8])
}
