// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// What is in a file of the first form is taken over, and found by its digest and by its
// answers.
func TestFirstForm(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	exec := func(statement string, args ...any) {
		t.Helper()
		if _, err := db.Exec(statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE TABLE sessions (digest BLOB PRIMARY KEY, tenant BLOB NOT NULL, used INTEGER NOT NULL, answers BLOB NOT NULL, snapshot BLOB NOT NULL)`)
	exec(`PRAGMA user_version = 1`)
	answer := sessioncache.Digest{9}
	for i := range byte(3) {
		digest, tenant := sessioncache.Digest{i + 1}, sessioncache.Tenant{7}
		answers := []byte{}
		if i == 1 {
			answers = answer[:]
		}
		exec(`INSERT INTO sessions VALUES (?, ?, ?, ?, ?)`, digest[:], tenant[:], time.Now().UnixNano(), answers, []byte{'s', i})
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time it is of the form that is written
		d, err := Open(Options{Path: path, MaxBytes: 1 << 20, TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		for i := range byte(3) {
			if got, err := d.Load(context.Background(), sessioncache.Digest{i + 1}); err != nil || string(got) != string([]byte{'s', i}) {
				t.Errorf("session %d is %q: %v", i, got, err)
			}
		}
		if got, ok, err := d.Answered(context.Background(), answer); err != nil || !ok || got != (sessioncache.Digest{2}) {
			t.Errorf("the answer is in %x, %t: %v", got, ok, err)
		}
		again := sessioncache.Record{Digest: sessioncache.Digest{3}, Tenant: sessioncache.Tenant{7}, Used: time.Now(), Snapshot: []byte{'s', 2}}
		if err := d.Save(t.Context(), []sessioncache.Record{again, again}); err != nil {
			t.Error(err)
		}
		if n, _ := d.Usage(); n != 3 {
			t.Errorf("%d sessions are kept", n)
		}
		var rows int
		if err := d.db.QueryRow("SELECT count(*) FROM sessions").Scan(&rows); err != nil || rows != 3 {
			t.Errorf("%d rows are in the file: %v", rows, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
