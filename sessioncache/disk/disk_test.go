// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package disk_test

import (
	"bytes"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/disk"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/storetest"
)

func options(path string) disk.Options {
	return disk.Options{Path: path, MaxBytes: 64 << 20, TTL: time.Hour}
}

func opened(t *testing.T, o disk.Options) *disk.Disk {
	t.Helper()
	d, err := disk.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDisk(t *testing.T) {
	paths := map[*testing.T]string{}
	storetest.Backend(t, func(t *testing.T) sessioncache.Backend {
		if paths[t] == "" {
			paths[t] = filepath.Join(t.TempDir(), "a", "sessions.db")
		}
		return opened(t, options(paths[t]))
	})
}

func TestStore(t *testing.T) {
	paths := map[*testing.T]string{}
	storetest.Store(t, func(t *testing.T) *sessioncache.Store {
		if paths[t] == "" {
			paths[t] = filepath.Join(t.TempDir(), "sessions.db")
		}
		s, err := sessioncache.New(sessioncache.Options{Backend: sessioncache.BackendOptions{
			Open:   func() (sessioncache.Backend, error) { return disk.Open(options(paths[t])) },
			Failed: func(what string, err error) { t.Errorf("%s: %v", what, err) },
			Budget: time.Second, // a loaded machine keeps the file longer than people would wait
		}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

// TestLaterMinorVersion: a file of a later minor version, with a column more, is read and written, and stays one of
// that version. A later major version is refused.
func TestLaterMinorVersion(t *testing.T) {
	o := options(filepath.Join(t.TempDir(), "sessions.db"))
	record := func(n byte) []sessioncache.Record {
		return []sessioncache.Record{{
			Digest: sessioncache.Digest{n}, Used: time.Now(), Snapshot: []byte{n},
		}}
	}
	d := opened(t, o)
	if err := d.Save(t.Context(), record(1)); err != nil {
		t.Fatal(err)
	}
	_ = d.Close()
	alter := func(statements string) (format int) {
		t.Helper()
		db, err := sql.Open("sqlite", o.Path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.Exec(statements); err != nil {
			t.Fatal(err)
		}
		if err := db.QueryRow("PRAGMA user_version").Scan(&format); err != nil {
			t.Fatal(err)
		}
		return format
	}
	alter("ALTER TABLE sessions ADD COLUMN later TEXT NOT NULL DEFAULT ''; UPDATE sessions SET later = 'x'; " +
		"PRAGMA user_version = 1001")
	d = opened(t, o)
	if got, err := d.Load(t.Context(), sessioncache.Digest{1}); err != nil || !bytes.Equal(got, []byte{1}) {
		t.Errorf("got %v and error %v, want the record of before", got, err)
	}
	if err := d.Save(t.Context(), record(2)); err != nil {
		t.Errorf("it is not written: %v", err)
	}
	_ = d.Close()
	if format := alter("SELECT 1"); format != 1001 {
		t.Errorf("the file is of format %d now, want 1001", format)
	}
	alter("PRAGMA user_version = 2000")
	if _, err := disk.Open(o); !errors.Is(err, disk.ErrNewer) {
		t.Errorf("of a later major version: got error %v, want %v", err, disk.ErrNewer)
	}
}

func TestOneProcessAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.db")
	d := opened(t, options(path))
	if _, err := disk.Open(options(path)); !errors.Is(err, disk.ErrInUse) {
		t.Errorf("opened twice: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := opened(t, options(path)).Close(); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("others may read it: %v, %v", info.Mode(), err)
	}
}

func record(n int, tenant byte, bytes int, used time.Time) sessioncache.Record {
	return sessioncache.Record{
		Digest: sessioncache.Digest{byte(n), byte(n >> 8), tenant}, Tenant: sessioncache.Tenant{tenant}, Used: used,
		Snapshot: make([]byte, bytes),
	}
}

// The file is bounded, and a tenant that fills it evicts its own sessions.
func TestBounds(t *testing.T) {
	o := options(filepath.Join(t.TempDir(), "sessions.db"))
	o.MaxBytes = 4 << 20
	d := opened(t, o)
	defer d.Close()
	if err := d.Save(t.Context(), []sessioncache.Record{
		record(1, 1, 1000, time.Now()),
		record(2, 1, 1000, time.Now().Add(-2*o.TTL)),
	}); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if err := d.Save(t.Context(), []sessioncache.Record{record(i, 2, 20_000, time.Now())}); err != nil {
			t.Fatal(err)
		}
	}
	if n, bytes := d.Usage(); bytes > o.MaxBytes || bytes < o.MaxBytes/2 || n < 100 {
		t.Errorf("%d sessions of %d bytes are kept", n, bytes)
	}
	for path, maxBytes := range map[string]int64{o.Path: o.MaxBytes * 5 / 4, o.Path + "-wal": 8 << 20} {
		if info, err := os.Stat(path); err != nil || info.Size() > maxBytes {
			t.Errorf("%s takes %d bytes, %v", path, info.Size(), err)
		}
	}
	for n, kept := range map[int]bool{1: true, 2: false} {
		got, err := d.Load(t.Context(), record(n, 1, 0, time.Time{}).Digest)
		if err != nil || (got != nil) != kept {
			t.Errorf("session %d of the other tenant: %d bytes, %v", n, len(got), err)
		}
	}
}

// A damaged file is set aside, whether the damage is found at the start or later.
func TestDamagedFile(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"no database": func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("rubbish "), 2000), 0o600) },
		"torn": func(path string) error {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt(bytes.Repeat([]byte{0xaa}, 40_000), 4096)
			return errors.Join(err, f.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(filepath.Join(t.TempDir(), "sessions.db"))
			logged := 0
			o.Log = func(string, error) { logged++ }
			d := opened(t, o)
			for i := range 20 {
				if err := d.Save(t.Context(), []sessioncache.Record{record(i, 1, 5000, time.Now())}); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			if err := damage(o.Path); err != nil {
				t.Fatal(err)
			}
			d = opened(t, o)
			defer d.Close()
			// Where only some pages are damaged, one operation may fail, not the next.
			if err := d.Save(t.Context(), []sessioncache.Record{record(100, 1, 5000, time.Now())}); err != nil {
				t.Log(err)
				if err := d.Save(t.Context(), []sessioncache.Record{record(100, 1, 5000, time.Now())}); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := d.Load(t.Context(), record(100, 1, 0, time.Time{}).Digest); err != nil || len(got) != 5000 {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if _, err := os.Stat(o.Path + ".damaged"); err != nil || logged != 1 {
				t.Errorf("told %d times; set aside: %v", logged, err)
			}
		})
	}
}
