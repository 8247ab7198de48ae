// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// A request for a session that is not in the file does not wait for writes, which take long on a
// slow medium.
func TestNewSessionsDoNotWait(t *testing.T) {
	d, err := Open(Options{Path: filepath.Join(t.TempDir(), "sessions.db"), MaxBytes: 1 << 20, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	only, err := d.db.Conn(t.Context()) // the file's one connection
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- d.Save(t.Context(), []sessioncache.Record{{
			Digest: sessioncache.Digest{1}, Used: time.Now(),
			Answers: []sessioncache.Digest{{2}}, Snapshot: []byte("x"),
		}})
	}()
	for d.db.Stats().WaitCount == 0 { // until it is being written
		runtime.Gosched()
	}
	if snapshot, err := d.Load(t.Context(), sessioncache.Digest{3}); snapshot != nil || err != nil {
		t.Errorf("%q, %v", snapshot, err)
	}
	if _, ok, err := d.Answered(t.Context(), sessioncache.Digest{2}); ok || err != nil {
		t.Errorf("an answer that is not written yet: %t, %v", ok, err)
	}
	if n, _ := d.Usage(); n != 0 {
		t.Errorf("%d sessions", n)
	}
	if err := only.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if snapshot, err := d.Load(t.Context(), sessioncache.Digest{1}); string(snapshot) != "x" || err != nil {
		t.Errorf("%q, %v", snapshot, err)
	}
}
